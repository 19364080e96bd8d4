import { mkdtemp, rm, symlink } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { PLAIN_ENV } from "@berth/host/child"
import { findTool } from "@berth/host/find-tool"
import { openHarness } from "./harness.ts"

/** Opens an embedded backend that finds no other runtime than runc. */
export const openHarnessOnRunc = async (): Promise<Awaited<ReturnType<typeof openHarness>>> => {
  const path = await mkdtemp(join(tmpdir(), "berth-runc-"))
  for (const tool of ["runc", "conmon", "tini", "perl"]) {
    await symlink((await findTool(tool, PLAIN_ENV.PATH)) ?? "", join(path, tool))
  }
  const harness = await openHarness({ path })
  const close = async () => {
    await harness.close()
    await rm(path, { recursive: true })
  }
  return { ...harness, close }
}
