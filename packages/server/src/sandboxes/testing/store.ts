import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll } from "vitest"
import { openStore, type Store } from "../../store/open.ts"

/** A real store for all tests of a file: each test has its own sandboxes in it. */
export const storeOfFile = (): Pick<Store, "db"> => {
  const dataDir = mkdtempSync(join(tmpdir(), "berth-sandboxes-"))
  let store: Store | undefined
  beforeAll(async () => {
    store = await openStore({ dataDir })
  })
  afterAll(async () => {
    await store?.close()
    rmSync(dataDir, { recursive: true, force: true })
  })
  return {
    get db() {
      if (store === undefined) throw new Error("the store is there in tests only")
      return store.db
    },
  }
}
