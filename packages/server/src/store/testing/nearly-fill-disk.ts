import { rmSync } from "node:fs"
import { join } from "node:path"
import { fillDisk, freeDisk } from "@berth/testing/disk-space"
import { openStore } from "../open.ts"
import { outcomeOf, say } from "./report.ts"

const [, , disk = ""] = process.argv

/** More pages than a new store needs. */
const ENOUGH_PAGES = 48

const openOnce = async (dataDir: string): Promise<string> => {
  const store = await openStore({ dataDir })
  await store.close()
  return "opened"
}

/** Makes a new store with each amount of space from none to enough, and opens it again with plenty. */
for (let freePages = 0; freePages < ENOUGH_PAGES; freePages++) {
  const dataDir = join(disk, "data")
  fillDisk(disk, freePages)
  const nearlyFull = await outcomeOf(openOnce(dataDir))
  freeDisk(disk)
  say({ freePages, nearlyFull, afterwards: await outcomeOf(openOnce(dataDir)) })
  rmSync(dataDir, { recursive: true })
}
