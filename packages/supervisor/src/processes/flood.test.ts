import { execFile } from "node:child_process"
import { mkdtemp, readdir, rm, stat } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { LOG_FILE_BYTES } from "./output/log-file.ts"

const FLOOD_BYTES = 200 * 1024 * 1024
/** Buffers wait for the garbage collector: about 70 MB of them, whether 400 MB flow through or 2 GB. */
const MAX_GROWTH_BYTES = 128 * 1024 * 1024

let directory: string
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "berth-flood-"))
})
afterEach(() => rm(directory, { recursive: true, force: true }))

describe("a process that floods its output", () => {
  it("takes less than 128 MiB of memory and no more disk than its log may have, and the end of its output is kept", async () => {
    const fixture = fileURLToPath(new URL("./testing/flood.ts", import.meta.url))
    const args = ["--conditions=source", fixture, directory, String(FLOOD_BYTES)]
    const { stdout } = await promisify(execFile)(process.execPath, args)
    const result = JSON.parse(stdout)
    const wholeBytes = FLOOD_BYTES + "\ndone\n".length
    expect(result).toMatchObject({
      lastOutput: "\ndone\n",
      heardBytes: wholeBytes,
      outputBytes: wholeBytes,
    })
    expect(result.grownBytes).toBeLessThan(MAX_GROWTH_BYTES)
    const files = await readdir(directory)
    expect(files).toContain("loud.log")
    for (const file of files)
      expect((await stat(join(directory, file))).size).toBeLessThanOrEqual(LOG_FILE_BYTES + 100)
  })
})
