import { execFileSync } from "node:child_process"
import { createHash } from "node:crypto"
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { ToolboxProgress } from "@berth/protocol/toolbox"
import { describe, expect, it, onTestFinished } from "vitest"
import { ADAPTERS } from "../inputs/optional-agents.ts"
import { makeDirectory } from "../testing/open-for-test.ts"
import { findAgent, installAgent } from "./install.ts"
import type { AgentPin } from "./pin.ts"

/** npm takes a second or two to start on a busy machine. */
const TEST_LIMIT_MS = 60_000

const NAME = ADAPTERS.codex
const VERSION = "9.9.9"
const { signal } = new AbortController()

/** Packs the adapter's package as a registry has it, with a script that must not run. */
const pack = (directory: string): Buffer => {
  const scripts = { postinstall: "touch ran" }
  mkdirSync(join(directory, "package"))
  writeFileSync(
    join(directory, "package/package.json"),
    JSON.stringify({ name: NAME, version: VERSION, scripts }),
  )
  execFileSync("tar", ["-czf", "package.tgz", "package"], { cwd: directory })
  return readFileSync(join(directory, "package.tgz"))
}

/** Starts a registry on loopback with that one package, for which it sends `bytes`. */
const serveRegistry = async (bytes: Buffer): Promise<string> => {
  const registry = createServer(({ url = "" }, response) => {
    if (url.endsWith(".tgz")) {
      response.end(bytes)
      return
    }
    const dist = { tarball: `${address}/package.tgz` }
    const versions = { [VERSION]: { name: NAME, version: VERSION, dist } }
    response.end(JSON.stringify({ name: NAME, "dist-tags": { latest: VERSION }, versions }))
  })
  await new Promise<void>((resolve) => registry.listen(0, "127.0.0.1", resolve))
  onTestFinished(() => void registry.closeAllConnections())
  onTestFinished(() => void registry.close())
  const address = `http://127.0.0.1:${(registry.address() as AddressInfo).port}`
  return address
}

const makePin = (bytes: Buffer): AgentPin => {
  const integrity = `sha512-${createHash("sha512").update(bytes).digest("base64")}`
  const dependencies = { [NAME]: VERSION }
  const manifest = { name: "pinned", dependencies }
  const packages = { "": manifest, [`node_modules/${NAME}`]: { version: VERSION, integrity } }
  return {
    agent: "codex",
    adapter: NAME,
    version: VERSION,
    bytes: 1_000_000,
    digest: "new",
    manifest: JSON.stringify(manifest),
    lock: JSON.stringify({ name: "pinned", lockfileVersion: 3, requires: true, packages }),
  }
}

const prepare = async (sent?: Buffer) => {
  // Programs cannot be run from memory everywhere.
  const base = makeDirectory(tmpdir())
  const bytes = pack(base)
  const registry = await serveRegistry(sent ?? bytes)
  const place = { root: join(base, "agents"), from: base }
  const progress: ToolboxProgress[] = []
  const call = {
    signal,
    onProgress: (each: ToolboxProgress) => progress.push(each),
    environment: {
      PATH: process.env.PATH,
      HOME: base,
      npm_config_cache: join(base, "cache"),
      npm_config_registry: registry,
      npm_config_fetch_retries: "0",
    },
  }
  return { pin: makePin(bytes), place, call, progress }
}

describe("an agent that is not installed", { timeout: TEST_LIMIT_MS }, () => {
  it("is installed as pinned, in place of older ones and of leftovers of a crash", async () => {
    const { pin, place, call, progress } = await prepare()
    for (const left of ["codex-old", "claude-other", "incoming-1-gone-00000000"])
      mkdirSync(join(place.root, left), { recursive: true })
    expect(await findAgent(pin, place)).toBeUndefined()
    const installed = await installAgent(pin, place, call)
    expect(await findAgent(pin, place)).toBe(installed)
    expect(readdirSync(place.root).sort()).toEqual(["claude-other", "codex-new"])
    expect(existsSync(join(installed, "node_modules", NAME, "ran"))).toBe(false)
    expect(progress[0]).toMatchObject({ step: "installing", entry: "codex", bytesTotal: 1_000_000 })
    expect(await findAgent({ ...pin, version: "9.9.8" }, place)).toBeUndefined()
  })

  it("is refused where its bytes do not have the pinned hash, and nothing is left", async () => {
    const { pin, place, call } = await prepare(Buffer.from("something else"))
    await expect(installAgent(pin, place, call)).rejects.toMatchObject({
      code: "toolbox.agent_not_installed",
      message: expect.stringMatching(/^codex could not be installed: sha512-.* integrity/),
      details: { agent: "codex", package: `${NAME}@${VERSION}` },
    })
    expect(readdirSync(place.root)).toEqual([])
  })

  it("is refused with npm's words without a registry, which leaves nothing, and with the reason without npm", async () => {
    const { pin, place, call } = await prepare()
    const environment = { ...call.environment, npm_config_registry: "http://127.0.0.1:9" }
    await expect(installAgent(pin, place, { ...call, environment })).rejects.toMatchObject({
      code: "toolbox.agent_not_installed",
      message: expect.stringContaining("ECONNREFUSED"),
    })
    expect(readdirSync(place.root)).toEqual([])
    await expect(
      installAgent(pin, place, { ...call, environment: { PATH: "/nonexistent" } }),
    ).rejects.toMatchObject({
      message: "codex could not be installed: npm is not on the PATH of the server",
    })
  })
})
