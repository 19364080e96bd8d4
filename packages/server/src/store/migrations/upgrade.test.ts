import { readdirSync } from "node:fs"
import { join } from "node:path"
import Sqlite from "better-sqlite3"
import { Kysely } from "kysely"
import { describe, expect, it } from "vitest"
import { createDatabase } from "../create.ts"
import { storeDialect } from "../dialect.ts"
import { migrate } from "../migrate.ts"
import { makeDataDir } from "../testing/data-dir.ts"
import { openForTest } from "../testing/open-for-test.ts"
import { MIGRATIONS } from "./list.ts"
import { type Rows, SAMPLES } from "./samples.ts"

const NEWEST = MIGRATIONS.length
const VERSIONS = MIGRATIONS.map((_, index) => index + 1)

describe("the list of migrations", () => {
  it("holds every migration file, in the order of their numbers", () => {
    const files = readdirSync(import.meta.dirname).filter((name) =>
      /^\d{4}-[a-z-]+\.ts$/.test(name),
    )
    expect(MIGRATIONS.map(({ name }) => `${name}.ts`)).toEqual(files.sort())
    expect(files.map((name) => Number(name.slice(0, 4)))).toEqual(VERSIONS)
  })

  it("has sample rows for every version", () => {
    expect(SAMPLES).toHaveLength(NEWEST)
  })
})

describe("an upgrade", () => {
  it.each(VERSIONS)(
    "from version %i keeps every row, except in columns rewritten on purpose",
    async (version) => {
      const dataDir = makeDataDir()
      await buildAt(version, dataDir)
      const before = await readRows(dataDir)

      const store = await openForTest({ dataDir })
      await store.close()

      const after = await readRows(dataDir)
      const onPurpose = SAMPLES.slice(version).flatMap(({ rewrites = [] }) => rewrites)
      const rewritten = new Set([...onPurpose, RAISED])
      for (const [table, rows] of Object.entries(before)) {
        if (rewritten.has(table)) continue
        const kept = rows.map((row) => withoutColumns(table, row, rewritten))
        const found = kept.map((row) => expect.objectContaining(row))
        expect(after[table], table).toEqual(expect.arrayContaining(found))
      }
      expect(await readVersion(dataDir)).toBe(NEWEST)
    },
  )
})

/** The column that every start raises. */
const RAISED = "installation.epoch"

/** Builds a database as it grew up to `version`: each version's rows were written when it was the newest. */
const buildAt = async (version: number, dataDir: string): Promise<void> => {
  await createDatabase(join(dataDir, "berth.db"), MIGRATIONS.slice(0, 1))
  for (let step = 1; step <= version; step++) {
    const { rows = {} } = SAMPLES[step - 1] ?? {}
    await withDatabase(dataDir, async (database) => {
      await migrate(new Kysely({ dialect: storeDialect(database) }), MIGRATIONS.slice(0, step))
      insert(database, rows)
    })
  }
  expect(await readVersion(dataDir)).toBe(version)
}

const withDatabase = async <Result>(
  dataDir: string,
  use: (database: Sqlite.Database) => Result | Promise<Result>,
): Promise<Result> => {
  const database = new Sqlite(join(dataDir, "berth.db"), { fileMustExist: true })
  try {
    return await use(database)
  } finally {
    database.close()
  }
}

const insert = (database: Sqlite.Database, rowsByTable: Rows): void => {
  for (const [table, rows] of Object.entries(rowsByTable)) {
    for (const row of rows) {
      const columns = Object.keys(row)
      const places = columns.map((column) => `@${column}`)
      database.prepare(`INSERT INTO ${table} (${columns}) VALUES (${places})`).run(row)
    }
  }
}

type ReadRows = Record<string, Record<string, unknown>[]>

const readRows = (dataDir: string): Promise<ReadRows> =>
  withDatabase(dataDir, (database) => {
    const tables = database
      .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
      .pluck()
      .all() as string[]
    const rows = tables.map((table) => [table, database.prepare(`SELECT * FROM ${table}`).all()])
    return Object.fromEntries(rows)
  })

const readVersion = (dataDir: string): Promise<unknown> =>
  withDatabase(dataDir, (database) => database.pragma("user_version", { simple: true }))

const withoutColumns = (
  table: string,
  row: Record<string, unknown>,
  rewritten: ReadonlySet<string>,
): Record<string, unknown> =>
  Object.fromEntries(Object.entries(row).filter(([column]) => !rewritten.has(`${table}.${column}`)))
