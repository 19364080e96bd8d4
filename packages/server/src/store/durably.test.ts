import { readFileSync } from "node:fs"
import { join } from "node:path"
import { requires } from "@berth/testing/requires"
import { type Kysely, sql } from "kysely"
import { describe, expect, it } from "vitest"
import { startChild } from "./testing/child.ts"
import { makeDataDir } from "./testing/data-dir.ts"
import { openForTest } from "./testing/open-for-test.ts"
import { addWorkspace, workspaceSlugs } from "./testing/workspaces.ts"

/** The modes of synchronizing, as SQLite numbers them. */
const NORMAL = 1
const FULL = 2

const synchronous = async <Tables>(db: Kysely<Tables>): Promise<number | undefined> =>
  (await sql<{ synchronous: number }>`pragma synchronous`.execute(db)).rows[0]?.synchronous

describe("a durable transaction", () => {
  it("[R3.1] commits in full synchronous mode, and only that commit does", async () => {
    const store = await openForTest({ dataDir: makeDataDir() })
    const [inside, beside] = await Promise.all([
      store.durably(synchronous),
      store.db.transaction().execute(synchronous),
    ])
    expect([inside, beside, await synchronous(store.db)]).toEqual([FULL, NORMAL, NORMAL])
  })

  it("leaves ordinary mode behind when its work fails", async () => {
    const store = await openForTest({ dataDir: makeDataDir() })
    const work = store.durably(async (trx) => {
      await addWorkspace(trx, "undone")
      throw new Error("no")
    })
    await expect(work).rejects.toThrow("no")
    expect(await synchronous(store.db)).toBe(NORMAL)
    expect(await workspaceSlugs(store.db)).toEqual([])
  })

  it("returns the result of its work", async () => {
    const store = await openForTest({ dataDir: makeDataDir() })
    expect(await store.durably(async () => 7)).toBe(7)
  })
})

requires("strace").describe("system calls", () => {
  it("[R3.1] sync the log before a durable transaction resolves, not for an ordinary one", async () => {
    const dataDir = makeDataDir()
    const traceFile = join(makeDataDir(), "trace")
    const wrapper = ["strace", "-f", "-y", "-e", "trace=write,fsync,fdatasync", "-o", traceFile]
    await startChild("commit.ts", { args: [dataDir], wrapper }).end()
    const trace = readFileSync(traceFile, "utf8").split("\n")

    const syncsBetween = (from: string, to: string): number =>
      trace
        .slice(positionOf(trace, from), positionOf(trace, to))
        .filter((call) => /\bf(data)?sync\(\d+<.*\/berth\.db-wal>\) += 0$/.test(call)).length
    expect(syncsBetween("durable", "ordinary again")).toBe(1)
    expect(syncsBetween("ordinary again", "done")).toBe(0)
  })
})

/** The place in a trace at which the process printed a word. */
const positionOf = (trace: readonly string[], word: string): number => {
  const position = trace.findIndex((call) => call.includes(`>, "\\"${word}\\"\\n"`))
  if (position < 0) throw new Error(`the trace does not hold ${word}`)
  return position
}
