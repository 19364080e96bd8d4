import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Writable } from "node:stream"
import { openLayers } from "@berth/layers/open"
import { Slug } from "@berth/protocol/ids"
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

/** A store with a top that nothing refers to any more. */
const makeUnused = async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "berth-layers-"))
  onTestFinished(() => rm(dataDir, { recursive: true }))
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
