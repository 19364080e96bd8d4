import { onTestFinished } from "vitest"
import { openStore, type Store, type StoreOptions } from "../open.ts"

/** Opens a store that is closed when the running test ends, if the test has not done so. */
export const openForTest = async (options: StoreOptions): Promise<Store> => {
  const store = await openStore(options)
  onTestFinished(() => store.close())
  return store
}
