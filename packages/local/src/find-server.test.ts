import { execFile } from "node:child_process"
import { chmodSync, mkdirSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { describe, expect, it, onTestFinished } from "vitest"
import { loadConfig } from "./config/load.ts"
import { findRunning } from "./find-server.ts"
import { removeLockHolder, writeLockHolder } from "./lock-holder.ts"
import { ensureToken } from "./token.ts"

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

describe("the server of root that is shared with a group", () => {
  const URL = "http://127.0.0.1:7766"
  const surroundings = { home: "/nonexistent", isRoot: false, workingDir: "/", env: {} }
  const makeServer = async (group?: number) => {
    const base = mkdtempSync(join(tmpdir(), "berth-find-"))
    onTestFinished(() => rmSync(base, { recursive: true }))
    const shared = join(base, "shared")
    mkdirSync(shared, { mode: 0o700 })
    writeLockHolder(shared, URL, group)
    const token = await ensureToken(shared, { group })
    const own = join(base, "own")
    const find = () => {
      const loaded = loadConfig({ ...surroundings, flags: {} })
      const config = { ...loaded.config, dataDir: own }
      return findRunning({ config, systemDataDir: shared })
    }
    return { shared, own, token, find }
  }

  it("is looked for by ordinary users who name no data directory, at its usual place", () => {
    const systemOf = (more: object) =>
      loadConfig({ ...surroundings, flags: {}, ...more }).systemDataDir
    expect(systemOf({})).toBe("/var/lib/berth")
    expect(systemOf({ isRoot: true })).toBeUndefined()
    expect(systemOf({ flags: { dataDir: "/elsewhere" } })).toBeUndefined()
    expect(systemOf({ env: { BERTH_DATA_DIR: "/elsewhere" } })).toBeUndefined()
  })

  it("is found by a user without a data directory of their own, while it runs", async () => {
    const { shared, own, token, find } = await makeServer(process.getgid?.())
    expect(await find()).toEqual({ url: URL, token })
    removeLockHolder(shared)
    await expect(find()).rejects.toMatchObject({ message: `no server runs on ${own}` })
  })

  it("is named, and not used, where the user has a data directory of their own", async () => {
    const { shared, own, find } = await makeServer(process.getgid?.())
    mkdirSync(own)
    const message = `no server runs on ${own}; one that you may use runs on ${shared}`
    await expect(find()).rejects.toMatchObject({ message })
  })

  it("is not found where it is shared with nobody", async () => {
    const { own, find } = await makeServer()
    await expect(find()).rejects.toMatchObject({ message: `no server runs on ${own}` })
  })
})
