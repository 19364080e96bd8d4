import { execFile } from "node:child_process"
import { chmodSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { describe, expect, it, onTestFinished } from "vitest"

const NOBODY = 65_534

/** Asks for the server of a data directory in a process of its own, as a user without rights. */
const findAsNobody = async (dataDir: string) => {
  const script = `
    const { findServer } = await import(${JSON.stringify(join(import.meta.dirname, "find-server.ts"))})
    if (process.geteuid() === 0) process.setuid(${NOBODY})
    await findServer({ flags: { dataDir: ${JSON.stringify(dataDir)} } }).catch((error) => {
      console.log(JSON.stringify(error))
    })`
  const args = ["--conditions=source", "--input-type=module", "--eval", script]
  const { stdout } = await promisify(execFile)(process.execPath, args, { env: { HOME: "/" } })
  return JSON.parse(stdout)
}

describe("findServer", () => {
  it("does not say that no server runs where the user may not look into the directory", async () => {
    const dir = mkdtempSync(join(tmpdir(), "berth-find-"))
    onTestFinished(() => {
      chmodSync(dir, 0o700)
      rmSync(dir, { recursive: true })
    })
    chmodSync(dir, 0o000)
    expect(await findAsNobody(dir)).toMatchObject({
      code: "server.unreachable",
      message: `this user may not look into ${dir}`,
    })
    chmodSync(dir, 0o755)
    expect(await findAsNobody(dir)).toMatchObject({ code: "server.not_running" })
  })
})
