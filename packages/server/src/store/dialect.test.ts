import { join } from "node:path"
import Sqlite from "better-sqlite3"
import { sql } from "kysely"
import { describe, expect, it, onTestFinished } from "vitest"
import { makeDataDir } from "./testing/data-dir.ts"
import { openForTest } from "./testing/open-for-test.ts"
import { addWorkspace, workspaceSlugs } from "./testing/workspaces.ts"

/** Opens the database as another program does, in the middle of a write. */
const holdWriteLock = (dataDir: string): void => {
  const shell = new Sqlite(join(dataDir, "berth.db"))
  onTestFinished(() => {
    shell.close()
  })
  shell.exec("BEGIN IMMEDIATE")
}

const openBusyStore = async () => {
  const dataDir = makeDataDir()
  const store = await openForTest({ dataDir })
  await sql`pragma busy_timeout = 20`.execute(store.db)
  holdWriteLock(dataDir)
  return store
}

describe("a query that SQLite refuses", () => {
  it("is store.busy, to be retried, when another program keeps the lock", async () => {
    const store = await openBusyStore()
    const busy = { code: "store.busy", retry: "later", details: { systemCode: "SQLITE_BUSY" } }
    await expect(addWorkspace(store.db, "shop")).rejects.toMatchObject(busy)
    await expect(store.durably(async () => {})).rejects.toMatchObject(busy)
    expect(await workspaceSlugs(store.db)).toEqual([])
  })

  it("is store.disk_full when the file cannot grow", async () => {
    const store = await openForTest({ dataDir: makeDataDir() })
    await sql`pragma max_page_count = 8`.execute(store.db)
    await expect(addWorkspace(store.db, "big", 100_000)).rejects.toMatchObject({
      code: "store.disk_full",
      details: { systemCode: "SQLITE_FULL" },
      cause: expect.any(Sqlite.SqliteError),
    })
  })

  it("is store.read_only when nothing may be written", async () => {
    const store = await openForTest({ dataDir: makeDataDir() })
    await sql`pragma query_only = on`.execute(store.db)
    await expect(addWorkspace(store.db, "shop")).rejects.toMatchObject({ code: "store.read_only" })
  })

  it("keeps SQLite's own error when it is about the query", async () => {
    const store = await openForTest({ dataDir: makeDataDir() })
    await addWorkspace(store.db, "shop")
    await expect(addWorkspace(store.db, "shop")).rejects.toMatchObject({
      name: "SqliteError",
      code: "SQLITE_CONSTRAINT_PRIMARYKEY",
    })
  })

  it("is refused as a stream, which would hold the connection for its reader", async () => {
    const store = await openForTest({ dataDir: makeDataDir() })
    const stream = store.db.selectFrom("workspaces").selectAll().stream()
    await expect(stream.next()).rejects.toThrow("does not stream")
  })
})

describe("a transaction", () => {
  it("fails, when SQLite has ended it, with the first error and commits nothing of what follows", async () => {
    const store = await openForTest({ dataDir: makeDataDir() })
    const conflict = { code: "SQLITE_CONSTRAINT_PRIMARYKEY" }
    const work = store.durably(async (trx) => {
      await addWorkspace(trx, "before")
      const again = sql`INSERT OR ROLLBACK INTO workspaces SELECT * FROM workspaces`.execute(trx)
      await expect(again).rejects.toMatchObject(conflict)
      await expect(addWorkspace(trx, "after")).rejects.toMatchObject(conflict)
    })
    await expect(work).rejects.toMatchObject(conflict)

    expect(await workspaceSlugs(store.db)).toEqual([])
    await store.durably((trx) => addWorkspace(trx, "later"))
    expect(await workspaceSlugs(store.db)).toEqual(["later"])
  })

  it("reports that it ran out of space, and leaves the store usable", async () => {
    const store = await openForTest({ dataDir: makeDataDir() })
    await sql`pragma max_page_count = 8`.execute(store.db)
    const work = store.db.transaction().execute(async (trx) => {
      await addWorkspace(trx, "small")
      await addWorkspace(trx, "big", 100_000)
    })
    await expect(work).rejects.toMatchObject({ code: "store.disk_full" })
    await addWorkspace(store.db, "later")
    expect(await workspaceSlugs(store.db)).toEqual(["later"])
  })

  it("takes the lock at its start when it writes, and not when it only reads", async () => {
    const store = await openBusyStore()
    let started = false
    const writing = store.db.transaction().execute(async () => {
      started = true
    })
    await expect(writing).rejects.toMatchObject({ code: "store.busy" })
    expect(started).toBe(false)

    const reading = store.db.transaction().setAccessMode("read only").execute(workspaceSlugs)
    expect(await reading).toEqual([])
  })

  it("has the connection to itself until it has ended", async () => {
    const store = await openForTest({ dataDir: makeDataDir() })
    const order: string[] = []
    const one = async (name: string) => {
      await store.durably(async (trx) => {
        order.push(`${name} begins`)
        await addWorkspace(trx, name)
        await addWorkspace(trx, `${name}-2`)
        order.push(`${name} ends`)
      })
    }
    await Promise.all([one("a"), one("b"), one("c")])
    expect(order).toEqual(["a begins", "a ends", "b begins", "b ends", "c begins", "c ends"])
  })
})
