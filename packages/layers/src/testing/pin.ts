import { writeFile } from "node:fs/promises"
import { join } from "node:path"
import { type LayerId, newId, type PinId } from "@berth/protocol/ids"
import type { PinRecord } from "../records/schemas.ts"

/** Puts a pin into the store at `root` that ends with no process, as older versions made them. */
export const plantPin = async (root: string, layer: LayerId): Promise<PinId> => {
  const id = newId.pin()
  const createdAt = new Date().toISOString()
  const record: PinRecord = { version: 1, id, layer, reason: "test", passing: false, createdAt }
  await writeFile(join(root, "pins", `${id}.json`), JSON.stringify(record))
  return id
}
