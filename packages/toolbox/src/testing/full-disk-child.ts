import { mkdirSync } from "node:fs"
import { join } from "node:path"
import { fillDisk, freeDisk } from "@berth/testing/disk-space"
import { namesIn } from "../layout.ts"
import { openToolboxes } from "../store.ts"
import { makeInputs } from "./fake-inputs.ts"
import { outcomeOf, say } from "./report.ts"

/** A program that builds on a disk with more and more space, until it succeeds. */
const [, , disk = "", inputsDirectory = ""] = process.argv
const root = join(disk, "toolbox")
mkdirSync(root)
const inputs = makeInputs(inputsDirectory)
const toolboxes = openToolboxes({ root, arch: "x64" })
const { signal } = new AbortController()

const PAGES_MORE = 17
for (let pages = 0; ; pages += PAGES_MORE) {
  fillDisk(disk, pages)
  const outcome = await outcomeOf(
    toolboxes.build(inputs, { signal }).then((built) => built.outcome),
  )
  const left = await namesIn(root)
  say({ free: `${pages} pages`, outcome, left })
  freeDisk(disk)
  if (outcome !== "toolbox.disk_full") break
}
