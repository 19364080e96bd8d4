import { readdirSync, statSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { InstallationId } from "@berth/protocol/ids"
import { sql } from "kysely"
import { describe, expect, it } from "vitest"
import { BUSY_TIMEOUT_MS } from "./connect.ts"
import { makeDataDir } from "./testing/data-dir.ts"
import { openForTest } from "./testing/open-for-test.ts"
import { addWorkspace, workspaceSlugs } from "./testing/workspaces.ts"

const modeOf = (path: string): number => statSync(path).mode & 0o777

describe("the store", () => {
  it("makes a missing data directory and its files for the owner only", async () => {
    const dataDir = join(makeDataDir(), "new", "deeper")
    const store = await openForTest({ dataDir })
    await addWorkspace(store.db, "shop")

    expect(modeOf(dataDir)).toBe(0o700)
    const modes = readdirSync(dataDir).map((name) => [name, modeOf(join(dataDir, name))])
    expect(Object.fromEntries(modes)).toEqual({
      "berth.db": 0o600,
      "berth.db-shm": 0o600,
      "berth.db-wal": 0o600,
      epoch: 0o600,
      "server.json": 0o600,
      "server.lock": 0o600,
    })
  })

  it("uses a log, foreign keys, a time limit for locks, and ordinary commits", async () => {
    const store = await openForTest({ dataDir: makeDataDir() })
    const pragma = async (name: string) => {
      const { rows } = await sql<object>`pragma ${sql.raw(name)}`.execute(store.db)
      return Object.values(rows[0] ?? {})[0]
    }
    expect(await pragma("journal_mode")).toBe("wal")
    expect(await pragma("foreign_keys")).toBe(1)
    expect(await pragma("busy_timeout")).toBe(BUSY_TIMEOUT_MS)
    expect(await pragma("synchronous")).toBe(SYNCHRONOUS_NORMAL)
  })

  it("keeps its installation id and its rows from one start to the next", async () => {
    const dataDir = makeDataDir()
    const first = await openForTest({ dataDir })
    await addWorkspace(first.db, "shop")
    await first.close()

    const second = await openForTest({ dataDir })
    expect(InstallationId.safeParse(second.installationId).success).toBe(true)
    expect(second.installationId).toBe(first.installationId)
    expect(await workspaceSlugs(second.db)).toEqual(["shop"])
  })

  it("gives every data directory an installation id of its own", async () => {
    const [one, other] = await Promise.all([
      openForTest({ dataDir: makeDataDir() }),
      openForTest({ dataDir: makeDataDir() }),
    ])
    expect(one.installationId).not.toBe(other.installationId)
  })

  it.each([
    ["is a file", "file"],
    ["lies below a file", "file/below"],
    ["is a link to nowhere", "link"],
  ])("refuses a data directory that %s", async (_, name) => {
    const parent = makeDataDir()
    writeFileSync(join(parent, "file"), "mine")
    symlinkSync("nowhere/at/all", join(parent, "link"))
    const dataDir = join(parent, name)
    await expect(openForTest({ dataDir })).rejects.toMatchObject({
      code: "store.no_directory",
      message: expect.stringContaining(dataDir),
      details: { dataDir },
    })
  })
})

/** The ordinary mode of synchronizing, as SQLite numbers it. */
const SYNCHRONOUS_NORMAL = 1

describe("closing the store", () => {
  it("works twice, also at the same time, and leaves a single file of the database", async () => {
    const dataDir = makeDataDir()
    const store = await openForTest({ dataDir })
    await addWorkspace(store.db, "shop")
    await Promise.all([store.close(), store.close()])
    await store.close()
    expect(readdirSync(dataDir).sort()).toEqual(["berth.db", "epoch", "server.lock"])
  })

  it("lets the running transaction end", async () => {
    const dataDir = makeDataDir()
    const store = await openForTest({ dataDir })
    const begun = Promise.withResolvers<void>()
    const mayGoOn = Promise.withResolvers<void>()
    const work = store.durably(async (trx) => {
      begun.resolve()
      await mayGoOn.promise
      await addWorkspace(trx, "in-time")
    })
    await begun.promise
    const closed = store.close()
    mayGoOn.resolve()
    await Promise.all([work, closed])

    const again = await openForTest({ dataDir })
    expect(await workspaceSlugs(again.db)).toEqual(["in-time"])
  })

  it("makes every later query fail with a typed error", async () => {
    const store = await openForTest({ dataDir: makeDataDir() })
    await store.close()
    const closed = { code: "store.closed" }
    await expect(workspaceSlugs(store.db)).rejects.toMatchObject(closed)
    await expect(store.durably(async () => {})).rejects.toMatchObject(closed)
    await expect(store.db.transaction().execute(async () => {})).rejects.toMatchObject(closed)
  })
})
