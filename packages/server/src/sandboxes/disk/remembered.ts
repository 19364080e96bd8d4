import { readFile, rename, writeFile } from "node:fs/promises"
import { join } from "node:path"
import type { FreeSpace } from "@berth/host/free-space"
import { SandboxId } from "@berth/protocol/ids"
import { z } from "zod"

/** The usage of each sandbox when it was last measured. */
export type UsedBySandbox = ReadonlyMap<SandboxId, Partial<FreeSpace>>

/** Keeps measurements for the next server, which may start on a full disk and has to find out who filled it. */
export interface Remembered {
  /** Empty if there is no file or it cannot be read. */
  read(): Promise<UsedBySandbox>
  save(used: UsedBySandbox): Promise<void>
}

/** Usage that could not be counted is not kept. */
const Amount = z.number().min(0).optional().catch(undefined)
const Saved = z.array(z.object({ sandbox: SandboxId, bytes: Amount, inodes: Amount }))

export const openRemembered = (dataDir: string): Remembered => {
  const file = join(dataDir, "disk-usage.json")
  return {
    read: async () => {
      try {
        const saved = Saved.parse(JSON.parse(await readFile(file, "utf8")))
        return new Map(
          saved.map(({ sandbox, bytes, inodes }) => [
            sandbox,
            { ...(bytes !== undefined && { bytes }), ...(inodes !== undefined && { inodes }) },
          ]),
        )
      } catch {
        return new Map()
      }
    },
    save: async (used) => {
      const saved = [...used].map(([sandbox, { bytes, inodes }]) => ({ sandbox, bytes, inodes }))
      await writeFile(`${file}.new`, JSON.stringify(saved), { mode: 0o600 })
      await rename(`${file}.new`, file)
    },
  }
}
