import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { onTestFinished } from "vitest"

/** A data directory of the running test, removed after it. */
export const makeDataDir = (): string => {
  const dataDir = mkdtempSync(join(tmpdir(), "berth-store-"))
  onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }))
  return dataDir
}
