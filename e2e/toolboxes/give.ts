import { execFile } from "node:child_process"
import { mkdir } from "node:fs/promises"
import { join } from "node:path"
import { promisify } from "node:util"
import { layoutAt } from "@berth/toolbox/layout"
import { sealed } from "@berth/toolbox/seal"
import { buildToolbox } from "./build.ts"
import { sharedStore } from "./shared.ts"

const exec = promisify(execFile)
const never = new AbortController().signal

/**
 * Makes the shared store the one of a server, which has nothing to copy and nothing to read: links to its files would
 * change them, and every server had to compare them all again. A test that changes a toolbox builds its own. Returns
 * the function that takes it back, to be called before the directory is removed.
 */
export const giveToolbox = async (dataDir: string): Promise<() => Promise<void>> => {
  const store = sharedStore("whole")
  if (store === undefined) return async () => {}
  const [id] = await sealed(layoutAt(store))
  if (id === undefined) await buildToolbox("whole", store, never)
  const place = join(dataDir, "toolbox")
  await mkdir(place)
  await exec("mount", ["--bind", store, place])
  return async () => void (await exec("umount", ["--lazy", place]))
}
