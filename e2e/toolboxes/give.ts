import { execFile } from "node:child_process"
import { copyFile, mkdir } from "node:fs/promises"
import { join } from "node:path"
import { promisify } from "node:util"
import { layoutAt } from "@berth/server/toolbox/layout"
import { sealed } from "@berth/server/toolbox/seal"
import { buildToolbox } from "./build.ts"
import { sharedStore } from "./shared.ts"

const never = new AbortController().signal

/**
 * Puts the shared toolbox into the store of a server, which compares it before its use and has nothing to copy. Its
 * files are the shared ones under other names: whoever changes them builds a toolbox of its own.
 */
export const giveToolbox = async (dataDir: string): Promise<void> => {
  const store = sharedStore("whole")
  if (store === undefined) return
  const from = layoutAt(store)
  const to = layoutAt(join(dataDir, "toolbox"))
  const [id = (await buildToolbox("whole", store, never)).id] = await sealed(from)
  await mkdir(to.seals, { recursive: true })
  await promisify(execFile)("cp", ["--archive", "--link", from.toolbox(id), to.root])
  // Written anew by whoever compares: no other name of the same file.
  await copyFile(from.seal(id), to.seal(id))
}
