import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type SandboxId, Slug } from "@berth/protocol/ids"
import { AGENT_USER } from "@berth/protocol/inside"
import type { StackKey } from "@berth/protocol/layer"
import type { Overlay } from "@berth/protocol/sandbox"
import { requires } from "@berth/testing/requires"
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest"
import type { Layers } from "../../layers/layers.ts"
import { openLayers } from "../../layers/open.ts"
import { snapshotOne } from "../../layers/testing/snapshot-one.ts"
import { askEngine, type DockerHarness, openHarness } from "./testing/harness.ts"
import { specFor } from "./testing/spec.ts"

const DEADLINE_MS = 60_000
const FILES = Slug.parse("workspace")
const AGENT = { uid: AGENT_USER.uid, gid: AGENT_USER.gid, mode: 0o755 }
const stackOf = (workspace: string): StackKey => ({ workspace: Slug.parse(workspace), name: FILES })
const SHOP = stackOf("shop")
const FORK = stackOf("fork")

requires("root", "docker").describe("a docker sandbox on stacks of layers", () => {
  let harness: DockerHarness
  let root: string
  let layers: Layers
  beforeAll(async () => {
    harness = await openHarness()
  }, 120_000)
  afterAll(() => harness?.close(), DEADLINE_MS)
  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), "berth-stacks-"))
    layers = await openLayers({ root, idBase: harness.backend.idBase })
    await layers.put(SHOP, null)
  })
  afterEach(async () => {
    for (const { identity } of await harness.backend.list())
      await harness.backend.remove(identity.sandbox)
    expect(await harness.census()).toMatchObject({ containers: 0, volumes: 0, mounts: 0 })
    await rm(root, { recursive: true })
  })

  const claim = async (key: StackKey, sandbox: SandboxId): Promise<Overlay> => {
    await layers.ensureTop(key, AGENT)
    const { cwd, lower, upper, work, options } = (await layers.claimTop(key, sandbox)).mount
    return { stack: key.name, base: cwd, lower: [...lower], upper, work, options: [...options] }
  }

  /** Starts a script in a new sandbox on a stack. */
  const startOn = async (key: StackKey, script: string, target = "/workspace", image?: string) => {
    const spec = specFor(harness, {
      ...{ command: ["/bin/sh", "-ec", script] },
      mounts: [{ kind: "stack", stack: key.name, target }],
      ...(image !== undefined && { system: { kind: "image", digest: image } }),
    })
    const { sandbox } = spec.identity
    await harness.backend.create({ ...spec, overlays: [await claim(key, sandbox)] })
    await harness.backend.start(sandbox)
    return sandbox
  }
  const release = async (key: StackKey, sandbox: SandboxId) => {
    await harness.backend.remove(sandbox)
    const { top } = await layers.ensureTop(key)
    await layers.releaseTop(top, sandbox)
  }
  /** Runs a script in a new sandbox on a stack, to its end; gives what it wrote. */
  const runOn = async (
    key: StackKey,
    ...how: [script: string, target?: string, image?: string]
  ) => {
    const sandbox = await startOn(key, ...how)
    await expect
      .poll(async () => (await harness.backend.inspect(sandbox))?.state, { timeout: DEADLINE_MS })
      .toBe("exited")
    const output = await harness.backend.logs(sandbox)
    await release(key, sandbox)
    return output
  }
  const isUp = async (sandbox: SandboxId) =>
    expect.poll(() => harness.backend.logs(sandbox), { timeout: DEADLINE_MS }).toContain("up\n")
  const WAIT = "echo up; while [ ! -e done ]; do sleep 0.02; done"

  it(
    "[R3.5] finds the files again that the one before it left, frozen or not",
    async () => {
      await runOn(SHOP, "mkdir -p src/deep; echo one > src/deep/a; echo two > b; ln -s b link")
      expect(await runOn(SHOP, "cat src/deep/a b link")).toBe("one\ntwo\ntwo\n")
      await layers.freeze(SHOP)
      // Names of a lower layer go away, and a directory of it moves: by the system call, as programs do it.
      const move = `perl -e 'rename("src", "source") or die "$!"'`
      await runOn(SHOP, `${move}; rm b link; mkdir src; echo new > src/fresh; echo b > source/b`)
      await layers.freeze(SHOP)
      expect(await runOn(SHOP, "find . -type f | sort; cat source/deep/a; ls -A src")).toBe(
        "./source/b\n./source/deep/a\n./src/fresh\none\nfresh\n",
      )
    },
    DEADLINE_MS,
  )

  it(
    "can be forked, and neither fork sees what the other writes",
    async () => {
      await runOn(SHOP, "echo shared > file; echo gone > gone")
      const { layer } = await layers.freeze(SHOP)
      await layers.put(FORK, layer)
      await Promise.all([
        runOn(SHOP, "echo shop >> file; rm gone"),
        runOn(FORK, "echo fork >> file; stat -c %u . > owner"),
      ])
      expect(await runOn(SHOP, "ls; cat file")).toBe("file\nshared\nshop\n")
      expect(await runOn(FORK, "ls; cat file owner")).toBe(
        `file\ngone\nowner\nshared\nfork\n${AGENT_USER.uid}\n`,
      )
    },
    DEADLINE_MS,
  )

  it(
    "has its top to itself while it runs, and can be copied meanwhile",
    async () => {
      const sandbox = await startOn(SHOP, `echo early > early; ${WAIT}; cat done`)
      await isUp(sandbox)
      const inUse = { code: "layers.top_in_use" }
      await expect(layers.freeze(SHOP)).rejects.toMatchObject(inUse)
      const other = specFor(harness).identity.sandbox
      await expect(layers.claimTop(SHOP, other)).rejects.toMatchObject(inUse)
      const { layer } = await snapshotOne(layers, SHOP, {
        ...{ sandbox, reason: "a test" },
        freeze: () => harness.backend.pause(sandbox),
        thaw: () => harness.backend.resume(sandbox),
      })
      await layers.put(FORK, layer)
      expect(await runOn(FORK, "ls; echo later > later")).toBe("early\n")
      expect(await harness.backend.inspect(sandbox)).toMatchObject({ state: "running" })
      await harness.backend.stop(sandbox, { graceMs: 0 })
      await release(SHOP, sandbox)
      await layers.freeze(SHOP)
      expect(await runOn(SHOP, "ls")).toBe("early\n")
    },
    DEADLINE_MS,
  )

  it(
    "is never filled with what the image has at its place",
    async () => {
      const { engine } = harness
      const Cmd = ["/bin/sh", "-c", "mkdir /data; echo image > /data/file"]
      const made = await askEngine(engine, "POST", "/containers/create", {
        ...{ Image: harness.image, Cmd, HostConfig: { NetworkMode: "none" } },
      })
      const { Id } = made.body as { Id: string }
      await askEngine(engine, "POST", `/containers/${Id}/start`)
      await askEngine(engine, "POST", `/containers/${Id}/wait`)
      const committed = await askEngine(engine, "POST", `/commit?container=${Id}`)
      await askEngine(engine, "DELETE", `/containers/${Id}`)
      const image = (committed.body as { Id: string }).Id
      expect(await runOn(SHOP, "ls /data; echo mine > /data/mine", "/data", image)).toBe("")
      expect(await runOn(SHOP, "ls /data", "/data", image)).toBe("mine\n")
    },
    DEADLINE_MS,
  )

  it(
    "[R3.5] leaves its files to the next one when the engine is killed under it",
    async () => {
      const sandbox = await startOn(SHOP, `echo kept > kept; ${WAIT}`)
      await isUp(sandbox)
      await harness.engine.restart()
      await expect
        .poll(async () => (await harness.backend.inspect(sandbox).catch(() => undefined))?.state, {
          timeout: DEADLINE_MS,
        })
        .toBe("exited")
      await release(SHOP, sandbox)
      expect(await runOn(SHOP, "cat kept")).toBe("kept\n")
    },
    DEADLINE_MS,
  )
})
