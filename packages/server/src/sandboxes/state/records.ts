import { readFileSync } from "node:fs"
import { mkdir, rename, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { BootMode } from "@berth/protocol/boot"
import { BerthError } from "@berth/protocol/errors"
import type { SandboxId } from "@berth/protocol/ids"
import { WorkspaceSpec } from "@berth/protocol/workspace"
import { z } from "zod"

const SandboxRecord = z.strictObject({ workspace: WorkspaceSpec, mode: BootMode })
/** The facts that a server needs to go on with a sandbox after a restart. */
export type SandboxRecord = z.infer<typeof SandboxRecord>

/** The records of sandboxes. Each lies beside the sandbox's token: out of its reach, and removed with its shared directory. */
export interface Records {
  /** Writes the record, before the sandbox is made. */
  write(sandbox: SandboxId, record: SandboxRecord): Promise<void>
  read(sandbox: SandboxId): Promise<SandboxRecord | undefined>
}

const RECORD_FILE = "workspace.json"

/**
 * Records survive the death of this process, not of the host: sandboxes do not survive that either, so nothing is
 * synced.
 */
export const openRecords = (root: string): Records => ({
  write: async (sandbox, record) => {
    const path = join(root, sandbox, RECORD_FILE)
    await mkdir(join(root, sandbox), { recursive: true, mode: 0o700 })
    // A workspace's environment may hold secrets.
    await writeFile(`${path}.new`, JSON.stringify(record), { mode: 0o600 })
    await rename(`${path}.new`, path)
  },
  read: async (sandbox) => {
    const path = join(root, sandbox, RECORD_FILE)
    // Read synchronously: the kernel has these few bytes, and the thread pool's turns would take ten times as long.
    const text = readIfThere(path)
    if (text === undefined) return undefined
    try {
      return SandboxRecord.parse(JSON.parse(text))
    } catch (cause) {
      const message = `the record of ${sandbox} cannot be read`
      throw new BerthError("backend.state_damaged", message, { details: { path }, cause })
    }
  },
})

const readIfThere = (path: string): string | undefined => {
  try {
    return readFileSync(path, "utf8")
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code !== "ENOENT") throw thrown
    return undefined
  }
}
