import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { type Kysely, sql } from "kysely"
import { describe, expect, it } from "vitest"
import { schemaVersion } from "./migrate.ts"
import { MIGRATIONS } from "./migrations/list.ts"
import type { Migration } from "./migrations/migration.ts"
import { startChild } from "./testing/child.ts"
import { makeDataDir } from "./testing/data-dir.ts"
import { openForTest } from "./testing/open-for-test.ts"
import { addWorkspace, workspaceSlugs } from "./testing/workspaces.ts"

const NEWEST = MIGRATIONS.length

const withMore = (...more: Migration[]): readonly Migration[] => [...MIGRATIONS, ...more]

const migration = (name: string, ...statements: string[]): Migration => ({
  name,
  up: async (trx) => {
    for (const statement of statements) await sql.raw(statement).execute(trx)
  },
})

const tables = async (db: Kysely<never>): Promise<string[]> =>
  (await db.introspection.getTables()).map(({ name }) => name)

describe("migrations", () => {
  it("run once each, in order", async () => {
    const dataDir = makeDataDir()
    const ran: string[] = []
    const noted = (name: string): Migration => ({
      name,
      up: async () => {
        ran.push(name)
      },
    })
    const migrations = withMore(noted("first"), noted("second"))
    await (await openForTest({ dataDir, migrations })).close()
    await (await openForTest({ dataDir, migrations })).close()
    const store = await openForTest({ dataDir, migrations: [...migrations, noted("third")] })

    expect(ran).toEqual(["first", "second", "third"])
    expect(await schemaVersion(store.db)).toBe(NEWEST + 3)
  })

  it("leave the version, the schema and the rows as they were when one throws half-way", async () => {
    const dataDir = makeDataDir()
    const store = await openForTest({ dataDir })
    await addWorkspace(store.db, "kept")
    await store.close()

    const bad = migration(
      "bad",
      "CREATE TABLE half_way (n INTEGER)",
      "DELETE FROM workspaces",
      "INSERT INTO nowhere VALUES (1)",
    )
    await expect(openForTest({ dataDir, migrations: withMore(bad) })).rejects.toMatchObject({
      code: "store.migration_failed",
      message: expect.stringContaining("bad"),
      details: { migration: "bad", stayedAtVersion: NEWEST },
    })

    const again = await openForTest({ dataDir })
    expect(await schemaVersion(again.db)).toBe(NEWEST)
    expect(await workspaceSlugs(again.db)).toEqual(["kept"])
    expect(await tables(again.db as never)).not.toContain("half_way")
  })

  it("leave the version, the schema and the rows as they were when they are killed half-way", async () => {
    const dataDir = makeDataDir()
    const store = await openForTest({ dataDir })
    await addWorkspace(store.db, "kept")
    await store.close()

    const child = startChild("hang-in-migration.ts", { args: [dataDir] })
    expect(await child.next()).toBe("half-way")
    await child.kill("SIGKILL")

    const again = await openForTest({ dataDir })
    expect(await schemaVersion(again.db)).toBe(NEWEST)
    expect(await workspaceSlugs(again.db)).toEqual(["kept"])
    expect(await tables(again.db as never)).not.toContain("half_way")
  })

  it("leave nothing that is taken for a database when they are killed while they make it", async () => {
    const dataDir = makeDataDir()
    const child = startChild("hang-in-migration.ts", { args: [dataDir] })
    expect(await child.next()).toBe("half-way")
    await child.kill("SIGKILL")
    expect(existsSync(join(dataDir, "berth.db"))).toBe(false)

    const store = await openForTest({ dataDir })
    expect(await schemaVersion(store.db)).toBe(NEWEST)
    expect(existsSync(join(dataDir, "berth.db.new"))).toBe(false)
  })

  it("may rebuild a table without losing the rows that refer to it", async () => {
    const dataDir = makeDataDir()
    const made = migration(
      "made",
      "CREATE TABLE parent (id INTEGER PRIMARY KEY) STRICT",
      "CREATE TABLE child (parent INTEGER REFERENCES parent ON DELETE CASCADE) STRICT",
      "INSERT INTO parent VALUES (1)",
      "INSERT INTO child VALUES (1)",
    )
    const rebuilt = migration(
      "rebuilt",
      "CREATE TABLE parent_new (id INTEGER PRIMARY KEY, more TEXT) STRICT",
      "INSERT INTO parent_new (id) SELECT id FROM parent",
      "DROP TABLE parent",
      "ALTER TABLE parent_new RENAME TO parent",
    )
    await (await openForTest({ dataDir, migrations: withMore(made) })).close()
    const store = await openForTest({ dataDir, migrations: withMore(made, rebuilt) })

    expect((await sql`SELECT * FROM child`.execute(store.db)).rows).toEqual([{ parent: 1 }])
    await expect(sql`INSERT INTO child VALUES (2)`.execute(store.db)).rejects.toMatchObject({
      code: "SQLITE_CONSTRAINT_FOREIGNKEY",
    })
  })

  it("are refused when they leave rows that refer to nothing", async () => {
    const dataDir = makeDataDir()
    const dangling = migration(
      "dangling",
      "CREATE TABLE parent (id INTEGER PRIMARY KEY) STRICT",
      "CREATE TABLE child (parent INTEGER REFERENCES parent) STRICT",
      "INSERT INTO child VALUES (1)",
    )
    await expect(openForTest({ dataDir, migrations: withMore(dangling) })).rejects.toMatchObject({
      code: "store.migration_failed",
      message: expect.stringContaining("rows of child refer to rows of parent"),
    })
  })

  it("refuse a database of a newer Berth and leave it as it is", async () => {
    const dataDir = makeDataDir()
    const newer = withMore(migration("newer", "CREATE TABLE later (n INTEGER)"))
    await (await openForTest({ dataDir, migrations: newer })).close()
    const before = readFileSync(join(dataDir, "berth.db"))

    await expect(openForTest({ dataDir })).rejects.toMatchObject({
      code: "store.too_new",
      details: { version: NEWEST + 1, newestVersion: NEWEST },
    })
    expect(readFileSync(join(dataDir, "berth.db")).equals(before)).toBe(true)
  })
})
