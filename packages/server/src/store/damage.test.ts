import {
  copyFileSync,
  existsSync,
  readFileSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs"
import { open } from "node:fs/promises"
import { join } from "node:path"
import { ERRORS } from "@berth/protocol/errors"
import Sqlite from "better-sqlite3"
import { describe, expect, it } from "vitest"
import { makeDataDir } from "./testing/data-dir.ts"
import { openForTest } from "./testing/open-for-test.ts"
import { addManyWorkspaces, addWorkspace, workspaceSlugs } from "./testing/workspaces.ts"

const PAGE_BYTES = 4_096

const databasePath = (dataDir: string): string => join(dataDir, "berth.db")

const makeFilledDatabase = async (): Promise<string> => {
  const dataDir = makeDataDir()
  const store = await openForTest({ dataDir })
  await addManyWorkspaces(store.db)
  await store.close()
  return dataDir
}

/** Makes the files that a crash leaves: the last commit is in the log only. */
const makeCrashedDatabase = async (): Promise<string> => {
  const running = await makeFilledDatabase()
  const store = await openForTest({ dataDir: running })
  await addWorkspace(store.db, "in-the-log")
  const dataDir = makeDataDir()
  copyDatabase(running, dataDir, ["", "-wal"])
  return dataDir
}

const copyDatabase = (from: string, to: string, suffixes: readonly string[]): void => {
  for (const suffix of suffixes)
    copyFileSync(databasePath(from) + suffix, databasePath(to) + suffix)
}

const overwrite = async (path: string, bytes: Buffer, position: number): Promise<void> => {
  await using file = await open(path, "r+")
  await file.write(bytes, 0, bytes.length, position)
}

const middleOf = (path: string): number =>
  Math.floor(statSync(path).size / PAGE_BYTES / 2) * PAGE_BYTES

const garbage = (bytes: number): Buffer => Buffer.alloc(bytes, 0xa5)

const DAMAGES: readonly [string, (path: string) => void | Promise<void>][] = [
  ["its header is garbage", (path) => overwrite(path, garbage(100), 0)],
  [
    "a page in the middle is garbage",
    (path) => overwrite(path, garbage(PAGE_BYTES), middleOf(path)),
  ],
  [
    "a page in the middle is zero",
    (path) => overwrite(path, Buffer.alloc(PAGE_BYTES), middleOf(path)),
  ],
  ["half of it is cut off", (path) => truncateSync(path, middleOf(path))],
  ["it is cut off within a page", (path) => truncateSync(path, middleOf(path) + 1_000)],
  ["it is cut off within the header", (path) => truncateSync(path, 50)],
  ["it is empty", (path) => truncateSync(path, 0)],
  ["it is another kind of file", (path) => writeFileSync(path, "not a database\n".repeat(1_000))],
]

describe.each(DAMAGES)("a database of which %s", (_, damage) => {
  it("is refused with a hint, and not changed", async () => {
    const dataDir = await makeFilledDatabase()
    await damage(databasePath(dataDir))
    await expectRefusedUnchanged(dataDir, [""])
  })

  it("is refused with its log, and neither is changed", async () => {
    const dataDir = await makeCrashedDatabase()
    await damage(databasePath(dataDir))
    await expectRefusedUnchanged(dataDir, ["", "-wal"])
  })
})

describe.each([
  ["log", "-wal"],
  ["journal", "-journal"],
])("a database file that is missing while its %s is there", (_, suffix) => {
  it("is not replaced by a new one, which would take that for its own", async () => {
    const dataDir = makeDataDir()
    const orphan = databasePath(dataDir) + suffix
    writeFileSync(orphan, garbage(PAGE_BYTES))

    await expect(openForTest({ dataDir })).rejects.toMatchObject({
      code: "store.damaged",
      message: expect.stringContaining(orphan),
    })
    expect(readFileSync(orphan).equals(garbage(PAGE_BYTES))).toBe(true)
    expect(existsSync(databasePath(dataDir))).toBe(false)
  })
})

describe("a database without its installation id", () => {
  it("is refused instead of getting another one", async () => {
    const dataDir = makeDataDir()
    const store = await openForTest({ dataDir })
    await store.db.deleteFrom("installation").execute()
    await store.close()
    await expect(openForTest({ dataDir })).rejects.toMatchObject({ code: "store.damaged" })
  })
})

describe("a database that a crash left behind", () => {
  it("is opened with what its log holds", async () => {
    const store = await openForTest({ dataDir: await makeCrashedDatabase() })
    expect(await workspaceSlugs(store.db)).toContain("in-the-log")
  })

  it("is opened without the transaction that its journal undoes", async () => {
    const original = await makeFilledDatabase()
    const database = new Sqlite(databasePath(original))
    database.pragma("journal_mode = DELETE")
    // So that pages reach the file before the commit.
    database.pragma("cache_size = 1")
    database.exec("BEGIN; UPDATE workspaces SET spec = '{}'")
    const dataDir = makeDataDir()
    copyDatabase(original, dataDir, ["", "-journal"])
    database.close()

    const store = await openForTest({ dataDir })
    const changed = store.db.selectFrom("workspaces").select("slug").where("spec", "=", "{}")
    expect(await changed.execute()).toEqual([])
  })
})

describe("a database that is damaged while it is open", () => {
  it("fails the query that meets the damage with a typed error", async () => {
    const dataDir = await makeFilledDatabase()
    const store = await openForTest({ dataDir })
    const path = databasePath(dataDir)
    await overwrite(path, garbage(PAGE_BYTES), middleOf(path))

    await expect(store.db.selectFrom("workspaces").selectAll().execute()).rejects.toMatchObject({
      code: "store.damaged",
      details: { path, systemCode: expect.stringMatching(/^SQLITE_CORRUPT/) },
    })
  })
})

const expectRefusedUnchanged = async (dataDir: string, suffixes: readonly string[]) => {
  const path = databasePath(dataDir)
  const read = () => suffixes.map((suffix) => readFileSync(path + suffix))
  const before = read()

  // Opens it twice, because leftovers of the first attempt must not mislead the second.
  for (const _ of ["first", "second"]) {
    await expect(openForTest({ dataDir })).rejects.toMatchObject({
      code: "store.damaged",
      message: expect.stringContaining(path),
      hint: ERRORS["store.damaged"].hint,
    })
  }

  expect(read().map((bytes, index) => bytes.equals(before[index] as Buffer))).toEqual(
    suffixes.map(() => true),
  )
}
