import { chmodSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { SHARED_TOOLBOXES } from "./shared.ts"

/** Building the whole toolbox moves half a gigabyte: once a run, not once a file. */
export default () => {
  const base = mkdtempSync(join(tmpdir(), "berth-test-toolboxes-"))
  chmodSync(base, 0o711)
  process.env[SHARED_TOOLBOXES] = base
  return () => rmSync(base, { recursive: true, force: true })
}
