import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { BootTrace } from "@berth/protocol/boot"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { ManualClock } from "../processes/testing/manual-clock.ts"
import { buildGraph } from "./graph.ts"
import { runBoot } from "./run.ts"
import { saveTrace } from "./trace-file.ts"

let directory: string
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "berth-trace-"))
})
afterEach(() => rm(directory, { recursive: true, force: true }))

const someTrace = (): Promise<BootTrace> =>
  runBoot({
    mode: "restore",
    context: undefined,
    clock: new ManualClock(),
    startedAt: new Date(0),
    graph: buildGraph<undefined>([
      {
        name: "hook",
        needs: [],
        required: true,
        timeoutMs: 1000,
        run: async () => ({ did: "ran .berth/start.sh", facts: { status: 0 } }),
      },
    ]),
  }).ended

describe("saveTrace", () => {
  it("[R2.13] replaces the earlier document by one that can be read back", async () => {
    const path = join(directory, "boot.json")
    await writeFile(path, "the one before")
    const trace = await someTrace()
    await saveTrace(path, trace)
    expect(BootTrace.parse(JSON.parse(await readFile(path, "utf8")))).toEqual(trace)
    expect(await readdir(directory)).toEqual(["boot.json"])
  })

  it("[R2.13] leaves the earlier document when the new one cannot be written", async () => {
    const path = join(directory, "boot.json")
    await writeFile(path, "the one before")
    // A directory in the place of the file that is written aside.
    await mkdir(`${path}.new`)
    await expect(saveTrace(path, await someTrace())).rejects.toMatchObject({ code: "EISDIR" })
    expect(await readFile(path, "utf8")).toBe("the one before")
  })
})
