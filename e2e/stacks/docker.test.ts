import { type ChildProcessByStdio, spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Readable, Writable } from "node:stream"
import { setImmediate } from "node:timers/promises"
import { askEngine, type DockerHarness, openHarness } from "@berth/backends/docker/testing/harness"
import { specFor } from "@berth/backends/docker/testing/spec"
import { mountedBy } from "@berth/layers/claims/mounted"
import type { Layers } from "@berth/layers/layers"
import { openLayers } from "@berth/layers/open"
import { snapshotOne } from "@berth/layers/testing/snapshot-one"
import { type SandboxId, Slug } from "@berth/protocol/ids"
import { AGENT_USER } from "@berth/protocol/inside"
import type { StackKey } from "@berth/protocol/layer"
import type { Overlay } from "@berth/protocol/sandbox"
import { requires } from "@berth/testing/requires"
import { afterAll, afterEach, beforeAll, beforeEach, expect, it, onTestFinished } from "vitest"

const DEADLINE_MS = 60_000
const FILES = Slug.parse("workspace")
const AGENT = { uid: AGENT_USER.uid, gid: AGENT_USER.gid, mode: 0o755 }
const stackOf = (workspace: string): StackKey => ({ workspace: Slug.parse(workspace), name: FILES })
const SHOP = stackOf("shop")
const FORK = stackOf("fork")

const readAll = (pid: string, ...files: readonly string[]): string => {
  try {
    return files.map((file) => readFileSync(`/proc/${pid}/${file}`, "utf8")).join("")
  } catch {
    return ""
  }
}
const processes = () => readdirSync("/proc").filter((name) => /^\d+$/.test(name))
/** The processes of a container, and the shim outside that watches them. */
const processesNaming = (engineId: string): string[] =>
  processes().filter((pid) => readAll(pid, "cgroup", "cmdline").includes(engineId))
/** Where an engine puts the cgroup of a container, by its driver and the version of cgroups. */
const CGROUPS = ["pids/docker/", "docker/", "pids/system.slice/docker-", "system.slice/docker-"]
/** The processes in a container. A start is over before all processes of a busy host were looked at. */
const processesIn = (engineId: string): string[] => {
  const names = CGROUPS.flatMap((before) => [`${before}${engineId}`, `${before}${engineId}.scope`])
  const lists = names.map((name) => `/sys/fs/cgroup/${name}/cgroup.procs`)
  const list = lists.find((path) => existsSync(path))
  return list === undefined ? [] : readFileSync(list, "utf8").trim().split("\n")
}
/** Tells whether the runtime has made a container's first process, which has the top mounted and waits for its start. */
const isMade = (engineId: string, top: string): boolean =>
  processesIn(engineId).some((pid) => readAll(pid, "mountinfo").includes(top)) &&
  processesNaming(engineId).every((pid) => !readAll(pid, "cmdline").includes("\0create\0"))

requires("root", "docker").describe("a docker sandbox on stacks of layers", () => {
  let harness: DockerHarness
  let root: string
  let layers: Layers
  beforeAll(async () => {
    // Tests kill this engine and start it again.
    harness = await openHarness({ liveRestore: true })
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
      command: ["/bin/sh", "-ec", script],
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
  /** A sandbox whose first process waits to be started, by an engine that was killed and does not know of it. */
  const startHalfway = async () => {
    for (;;) {
      const spec = specFor(harness, {
        mounts: [{ kind: "stack", stack: SHOP.name, target: "/workspace" }],
      })
      const { sandbox } = spec.identity
      await harness.backend.create({ ...spec, overlays: [await claim(SHOP, sandbox)] })
      const { body } = await askEngine(harness.engine, "GET", `/containers/berth-${sandbox}/json`)
      const engineId = (body as { Id: string }).Id
      const started = harness.backend.start(sandbox).catch(() => {})
      const { top } = await layers.ensureTop(SHOP)
      while (!isMade(engineId, top)) await setImmediate()
      await harness.engine.restart()
      await started
      await isIn(sandbox, expect.stringMatching(/created|running/))
      const isKnown = (await harness.backend.inspect(sandbox))?.state === "running"
      if (!isKnown && isMade(engineId, top)) return { sandbox, engineId }
      // The engine knows of the start already, or did not get that far.
      await release(SHOP, sandbox)
    }
  }
  /** Runs a script in a new sandbox on a stack to its end, and returns its output. */
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
  const isIn = async (sandbox: SandboxId, state: unknown) =>
    expect
      .poll(async () => (await harness.backend.inspect(sandbox).catch(() => undefined))?.state, {
        timeout: DEADLINE_MS,
      })
      .toEqual(state)
  const WAIT = "echo up; while [ ! -e done ]; do sleep 0.02; done"

  it(
    "[R3.5] finds the files that the sandbox before it left, frozen or not",
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
    "can be forked, and neither fork sees the other's writes",
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
        sandbox,
        reason: "a test",
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
    "shows none of the files that the image has at its place",
    async () => {
      const { engine } = harness
      const Cmd = ["/bin/sh", "-c", "mkdir /data; echo image > /data/file"]
      const made = await askEngine(engine, "POST", "/containers/create", {
        Image: harness.image,
        Cmd,
        HostConfig: { NetworkMode: "none" },
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
    "[R3.5] leaves its files to the next sandbox when the engine is killed under it",
    async () => {
      const sandbox = await startOn(SHOP, `echo kept > kept; ${WAIT}`)
      await isUp(sandbox)
      await harness.engine.restart({ liveRestore: false })
      await isIn(sandbox, "exited")
      await release(SHOP, sandbox)
      expect(await runOn(SHOP, "cat kept")).toBe("kept\n")
      await harness.engine.restart({ liveRestore: true })
    },
    DEADLINE_MS,
  )

  /** A sandbox that went on through a restart of its engine, and was stopped after it. */
  const outliveEngine = async (before = async () => {}): Promise<SandboxId> => {
    const sandbox = await startOn(SHOP, `echo kept > kept; ${WAIT}`)
    await isUp(sandbox)
    await before()
    await harness.engine.restart()
    await isIn(sandbox, "running")
    await harness.backend.stop(sandbox, { graceMs: 0 })
    return sandbox
  }
  /** Engines before 23 count mounts of its volumes that are gone, and give these up at their next start. */
  const leavesNothing = async (sandbox: SandboxId): Promise<void> => {
    await release(SHOP, sandbox)
    expect(await runOn(SHOP, "cat kept")).toBe("kept\n")
    await harness.engine.restart()
    await expect.poll(() => harness.census()).toMatchObject({ containers: 0, volumes: 0 })
  }

  it(
    "[R1.8] [R1.9] runs through a restart of an engine with live-restore, and is stopped and removed after it",
    async () => {
      await leavesNothing(await outliveEngine())
      const { notes } = await harness.backend.describe()
      expect(notes).toContainEqual(expect.stringContaining("(live-restore)"))
    },
    DEADLINE_MS,
  )

  it(
    "gives its top back when a program that has copies of all mounts of the host ends",
    async () => {
      // A container's runtime has such copies until the container has a root, and a fork's copying program for as long as it copies.
      const copying = ["--mount", "--propagation", "private", "sh", "-c", "echo up; exec cat"]
      let program: ChildProcessByStdio<Writable, Readable, null> | undefined
      onTestFinished(() => void program?.kill("SIGKILL"))
      const sandbox = await outliveEngine(async () => {
        program = spawn("unshare", copying, { stdio: ["pipe", "pipe", "inherit"] })
        await once(program.stdout, "data")
      })
      await harness.backend.remove(sandbox)
      const { top } = await layers.ensureTop(SHOP)
      const released = layers.releaseTop(top, sandbox).catch((thrown: unknown) => thrown)
      // The release has looked by the end of the second look.
      for (const _ of [1, 2]) expect(await mountedBy(top)).toEqual([program?.pid])
      program?.stdin.end()
      expect(await released).toBeUndefined()
      await leavesNothing(sandbox)
    },
    DEADLINE_MS,
  )

  it(
    "leaves no mount and no volume behind when its files were read after a restart of the engine",
    async () => {
      const sandbox = await outliveEngine()
      // As `docker cp` does.
      const path = `/containers/berth-${sandbox}/archive?path=/workspace`
      expect(await askEngine(harness.engine, "HEAD", path)).toMatchObject({ status: 200 })
      await leavesNothing(sandbox)
    },
    DEADLINE_MS,
  )

  it.each([
    {
      how: "by the server that started it",
      remove: async (sandbox: SandboxId) => {
        await harness.backend.stop(sandbox, { graceMs: 0 })
        await harness.backend.remove(sandbox)
      },
    },
    {
      // A server that dies amid a removal leaves this, and so does `docker container prune` while no server runs.
      how: "by the next server, where only its container was removed",
      remove: async (sandbox: SandboxId) => {
        const path = `/containers/berth-${sandbox}?force=1`
        expect(await askEngine(harness.engine, "DELETE", path)).toMatchObject({ status: 204 })
        expect(await (await harness.reopen()).repair()).toEqual([])
      },
    },
  ])(
    "[R1.8] is removed with the processes that an engine killed amid its start has left, $how",
    async ({ remove }) => {
      const { sandbox, engineId } = await startHalfway()
      expect(await harness.backend.inspect(sandbox)).toMatchObject({ state: "created" })
      expect(processesNaming(engineId)).not.toEqual([])
      await remove(sandbox)
      expect(processesNaming(engineId)).toEqual([])
      await release(SHOP, sandbox)
      expect(await runOn(SHOP, "echo free")).toBe("free\n")
    },
    2 * DEADLINE_MS,
  )
})
