import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Writable } from "node:stream"
import type { ObservedSandbox } from "@berth/backends/backend"
import { openLayers } from "@berth/layers/open"
import { newId, type SandboxId, Slug } from "@berth/protocol/ids"
import { expect, it, onTestFinished } from "vitest"
import { createLogger } from "./logging/logger.ts"
import { Secrets } from "./logging/secrets.ts"
import { openOwnLayers } from "./open-own-layers.ts"
import { isDiskFull, type Rescue } from "./sandboxes/disk/rescue.ts"

const key = { workspace: Slug.parse("shop"), name: Slug.parse("workspace") }
const { signal } = new AbortController()
const log = await createLogger({
  level: "info",
  pretty: false,
  secrets: new Secrets(),
  destination: new Writable({ write: (_, __, done) => done() }),
})

const makeDataDir = async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "berth-layers-"))
  onTestFinished(() => rm(dataDir, { recursive: true }))
  return dataDir
}

/** A store with a top that nothing refers to any more. */
const makeUnused = async () => {
  const dataDir = await makeDataDir()
  const layers = await openLayers({ root: join(dataDir, "layers"), idBase: 0 })
  await layers.put(key, null)
  await layers.ensureTop(key)
  await layers.put(key, null, { replace: true })
  await layers.close()
  return dataDir
}

const backend = {
  idBase: 0,
  inspect: async () => undefined,
  resume: async () => {},
}

it("makes room for the repair of the layers on a full disk", async () => {
  const dataDir = await makeUnused()
  const isFull = { yes: true }
  const at = (): void => {
    if (isFull.yes) throw Object.assign(new Error("no space is left"), { code: "ENOSPC" })
  }
  const run: Rescue["run"] = async (work) => {
    const thrown = await work().catch((failure: unknown) => failure)
    expect(isDiskFull(thrown)).toBe(true)
    isFull.yes = false
    return await work()
  }
  const layers = await openOwnLayers(
    { dataDir, log, at, disk: { rescue: { run } } },
    backend,
    signal,
  )
  onTestFinished(() => layers.close())
  expect((await layers.list()).stacks).toMatchObject([{ top: null }])
})

/** Leaves what a server leaves that is killed while a sandbox stands still for a snapshot. */
const leaveFrozen = async (dataDir: string, sandbox: SandboxId) => {
  const draft = join(dataDir, "layers/incoming", newId.layer())
  await mkdir(draft, { recursive: true })
  const note = { version: 1, top: newId.top(), sandbox }
  await writeFile(join(draft, "snapshot.json"), JSON.stringify(note))
}

it("resumes the sandboxes that a snapshot left frozen, though one of them cannot be resumed", async () => {
  const dataDir = await makeDataDir()
  const sandboxes = [newId.sandbox(), newId.sandbox(), newId.sandbox()]
  for (const sandbox of sandboxes) await leaveFrozen(dataDir, sandbox)
  const asked: SandboxId[] = []
  const engine = {
    ...backend,
    inspect: async () => ({ state: "paused" }) as ObservedSandbox,
    resume: async (sandbox: SandboxId) => {
      asked.push(sandbox)
      if (asked.length === 1) throw new Error("the engine cannot thaw it")
    },
  }
  const layers = await openOwnLayers({ dataDir, log }, engine, signal)
  onTestFinished(() => layers.close())
  expect(new Set(asked)).toEqual(new Set(sandboxes))
})
