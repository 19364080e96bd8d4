import { existsSync, mkdtempSync, rmSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { CompiledQuery } from "kysely"
import { expect, it, onTestFinished } from "vitest"
import { openStore } from "./open.ts"

const MIB = 1024 * 1024

it("moves commits from the log into the database while others go on, and all of them at the end", async () => {
  const dataDir = mkdtempSync(join(tmpdir(), "berth-checkpoints-"))
  onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }))
  const store = await openStore({ dataDir })
  const path = join(dataDir, "berth.db")
  const commit = (bytes: number) =>
    store.db
      .transaction()
      .execute((trx) =>
        trx.executeQuery(CompiledQuery.raw("INSERT INTO filler VALUES (zeroblob(?))", [bytes])),
      )
  await store.db.executeQuery(CompiledQuery.raw("CREATE TABLE filler (bytes BLOB)"))
  for (let count = 0; count < 20; count++) await commit(MIB)
  // Later commits notice the length of the log.
  const isMoved = async () => {
    await commit(1)
    return statSync(path).size > 16 * MIB
  }
  await expect.poll(isMoved).toBe(true)
  await store.close()
  expect(statSync(path).size).toBeGreaterThan(20 * MIB)
  expect(existsSync(`${path}-wal`)).toBe(false)
})
