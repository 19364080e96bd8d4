import { spawn } from "node:child_process"
import { once } from "node:events"
import { chmod, mkdtemp, readFile, rm } from "node:fs/promises"
import { type AddressInfo, connect, createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { pipeline } from "node:stream"
import { run } from "@berth/host/run"
import { BerthError, ERRORS } from "@berth/protocol/errors"
import { newId, type SandboxId, Slug } from "@berth/protocol/ids"
import type { SandboxSpec } from "@berth/protocol/sandbox"
import { requires } from "@berth/testing/requires"
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest"
import type { Backend, BackendEvent, Call } from "../backend.ts"
import { openDocker } from "./backend.ts"
import {
  ERROR_WORDS,
  FAULTS,
  type Fault,
  type FaultyEngine,
  startFaultyEngine,
} from "./testing/faulty-engine.ts"
import { askEngine, type DockerHarness, openHarness } from "./testing/harness.ts"
import { specFor } from "./testing/spec.ts"

/** Far above what a healthy engine takes, far below the operations' own deadlines. */
const DEADLINE_MS = 1_500
/** The deadline of calls that are never answered. */
const WAITED_FOR_MS = 200
/** A caller that gave up waits for a creation that is under way. */
const SETTLED_MS = DEADLINE_MS + 2_000 + 1_500

/** The engine's disk holds the image and a little more, so that it is soon full. */
const ENGINE_DISK_BYTES = 192 * 1024 * 1024

const AS_NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] as const

const asFailure = (thrown: unknown) => thrown

const failureOf = async (work: Promise<unknown>): Promise<BerthError> => {
  const failure = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (failure instanceof BerthError) return failure
  throw new Error("it did not fail with a typed error", { cause: failure })
}

requires("docker").describe("docker behind a faulty connection", () => {
  let harness: DockerHarness
  let faulty: FaultyEngine
  let backend: Backend
  let empty: Record<string, number>

  beforeAll(async () => {
    harness = await openHarness({ liveRestore: true, diskBytes: ENGINE_DISK_BYTES })
    faulty = await startFaultyEngine(harness.engine.socket)
    backend = await harness.openThrough(faulty.address)
    // The backend looks into an image once. It does so here, so that the faults hit other calls.
    const spec = specFor(harness)
    await harness.backend.create(spec)
    await harness.backend.remove(spec.identity.sandbox)
    empty = await harness.census()
  }, 120_000)
  afterEach(async () => {
    faulty.fail(/./, undefined)
    for (const { identity } of await harness.backend.list()) {
      await harness.backend.remove(identity.sandbox)
    }
    await backend.repair()
    expect(await harness.census()).toEqual(empty)
  })
  afterAll(async () => {
    faulty?.fail(/./, undefined)
    await harness?.close()
    await faulty?.close()
  }, 60_000)

  const operations: Record<string, (of: Backend, call: Call) => Promise<unknown>> = {
    describe: (of, call) => of.describe(call),
    list: (of, call) => of.list(call),
    inspect: (of, call) => of.inspect(newId.sandbox(), call),
    remove: (of, call) => of.remove(newId.sandbox(), call),
  }

  it.each(FAULTS)(
    "[R1.14] ends describe, list, inspect and remove in time with a typed error: %s",
    async (fault) => {
      faulty.fail(/./, fault)
      const waits = fault === "hang" || fault === "slow"
      const deadlineMs = waits ? WAITED_FOR_MS : DEADLINE_MS
      const begun = performance.now()
      const failures = await Promise.all(
        Object.values(operations).map((operation) => failureOf(operation(backend, { deadlineMs }))),
      )
      expect(performance.now() - begun).toBeLessThan(deadlineMs + 1_000)
      for (const { code, details } of failures) {
        expect(code).toBe(waits ? "deadline.exceeded" : "backend.engine_failed")
        if (!waits) expect(details.engineSaid).toEqual(expect.stringMatching(/./))
        if (fault === "500") expect(details).toMatchObject({ status: 500, engineSaid: ERROR_WORDS })
      }
    },
  )

  it.each(FAULTS)(
    "[R1.14] leaves nothing of a create that fails, and can repeat it: %s",
    async (fault) => {
      const spec = specFor(harness)
      faulty.fail(/POST \S*\/containers\/create/, fault)
      const begun = performance.now()
      const failure = await failureOf(backend.create(spec, { deadlineMs: DEADLINE_MS }))
      expect(performance.now() - begun).toBeLessThan(SETTLED_MS)
      expect(ERRORS).toHaveProperty([failure.code])
      expect(await harness.census()).toEqual(empty)
      faulty.fail(/./, undefined)
      expect(await backend.create(spec)).toMatchObject({ state: "created" })
      expect(await backend.list()).toHaveLength(1)
    },
  )

  it("[R1.9] keeps an existing sandbox when a repeated create gets no answer", async () => {
    const spec = specFor(harness)
    await backend.create(spec)
    await backend.start(spec.identity.sandbox)
    await rm(join(harness.directory, "sandboxes", spec.identity.sandbox), { recursive: true })
    faulty.fail(/POST \S*\/containers\/create/, "reset")
    await failureOf(backend.create(spec))
    faulty.fail(/./, undefined)
    expect(await backend.create(spec)).toMatchObject({ state: "running" })
  })

  it("[R1.14] leaves nothing of a failed look into an image, and looks once more for three sandboxes", async () => {
    const images = join(harness.directory, "images")
    await rm(images, { recursive: true })
    const forgetful = await harness.openThrough(faulty.address)
    faulty.fail(/-look-/, "lost")
    await failureOf(forgetful.create(specFor(harness)))
    expect(await harness.census()).toEqual(empty)
    faulty.fail(/./, undefined)
    const specs = Array.from({ length: 3 }, () => specFor(harness))
    const before = faulty.asked.length
    await Promise.all(specs.map((spec) => forgetful.create(spec)))
    const looks = faulty.asked.slice(before).filter((line) => /POST .*-look-/.test(line))
    expect(looks).toHaveLength(1)
  })

  describe("a stop", () => {
    const GRACEFUL = "trap 'exit 0' TERM; echo up; while :; do sleep 0.02; done"

    const boot = async () => {
      const spec = specFor(harness, { command: ["/bin/sh", "-c", GRACEFUL] })
      const { sandbox } = spec.identity
      await backend.create(spec)
      await backend.start(sandbox)
      await expect.poll(() => backend.logs(sandbox)).toContain("up")
      return sandbox
    }

    /** Recreates a container under its name with another id, as programs do that update containers. */
    const recreate = async (sandbox: SandboxId, changes: object = {}) => {
      const { engine } = harness
      const at = `/containers/berth-${sandbox}`
      const { body } = await askEngine(engine, "GET", `${at}/json`)
      const { Config, HostConfig } = body as { Config: object; HostConfig: object }
      await askEngine(engine, "DELETE", `${at}?force=1`)
      const path = `/containers/create?name=berth-${sandbox}`
      const made = { ...Config, HostConfig, ...changes }
      expect(await askEngine(engine, "POST", path, made)).toMatchObject({ status: 201 })
      await askEngine(engine, "POST", `${at}/start`)
      await expect.poll(() => backend.logs(sandbox)).toContain("up")
    }

    const IN_ORDER = { state: "exited", exit: { code: 0 } }

    it("is graceful to a paused sandbox that the engine refuses to signal", async () => {
      const sandbox = await boot()
      await backend.pause(sandbox)
      faulty.fail(/\/kill/, "409", 1)
      await backend.stop(sandbox, { graceMs: 5_000 })
      expect(await backend.inspect(sandbox)).toMatchObject(IN_ORDER)
    })

    it("is graceful after a pause that the engine refused twice, as it does on a busy host", async () => {
      const sandbox = await boot()
      faulty.fail(/\/pause/, "500", 2)
      await backend.pause(sandbox)
      expect(await backend.inspect(sandbox)).toMatchObject({ state: "paused" })
      await backend.stop(sandbox, { graceMs: 5_000 })
      expect(await backend.inspect(sandbox)).toMatchObject(IN_ORDER)
    })

    it("signals a running sandbox again that the engine refused to signal", async () => {
      const sandbox = await boot()
      faulty.fail(/\/kill/, "409", 1)
      await backend.stop(sandbox, { graceMs: 5_000 })
      expect(await backend.inspect(sandbox)).toMatchObject(IN_ORDER)
    })

    it("finds a container that was recreated under its name, and so does a removal", async () => {
      const sandbox = await boot()
      await recreate(sandbox)
      await backend.stop(sandbox, { graceMs: 5_000 })
      expect(await backend.inspect(sandbox)).toMatchObject(IN_ORDER)
      await backend.remove(sandbox)
      expect(await backend.inspect(sandbox)).toBeUndefined()
    })

    it("leaves another sandbox alone whose container was given the name, and so does a removal", async () => {
      const [gone, other] = [await boot(), await boot()]
      const { engine } = harness
      await askEngine(engine, "DELETE", `/containers/berth-${gone}?force=1`)
      await askEngine(engine, "POST", `/containers/berth-${other}/rename?name=berth-${gone}`)
      const failure = await failureOf(backend.stop(gone, { graceMs: 5_000 }))
      expect(failure.code).toBe("backend.unknown_sandbox")
      await backend.remove(gone)
      expect(await backend.list()).toMatchObject([
        { identity: { sandbox: other }, state: "running" },
      ])
    })

    it("is graceful to a paused sandbox whose container has another stop signal", async () => {
      const sandbox = await boot()
      await recreate(sandbox, { StopSignal: "SIGINT" })
      await backend.pause(sandbox)
      await backend.stop(sandbox, { graceMs: 5_000 })
      expect(await backend.inspect(sandbox)).toMatchObject(IN_ORDER)
    })
  })

  describe("sandboxes inspected at the same time", () => {
    const inspections = () => faulty.asked.filter((line) => /\/containers\/\S*json/.test(line))

    it("are read from one list, with the same result as one by one", async () => {
      const command = ["/bin/sh", "-c", "sleep 1000"]
      const create = async () =>
        (await backend.create(specFor(harness, { command }))).identity.sandbox
      const created = await create()
      const [running, paused, ended] = [await create(), await create(), await create()]
      for (const sandbox of [running, paused, ended]) await backend.start(sandbox)
      await backend.pause(paused)
      await backend.stop(ended, { graceMs: 0 })
      const all = [created, running, paused, ended, newId.sandbox()]
      const alone = []
      for (const sandbox of all) alone.push(await backend.inspect(sandbox))
      expect(alone.map((seen) => seen?.state)).toEqual([
        ...["created", "running", "paused", "exited", undefined],
      ])
      const before = inspections().length
      expect(await Promise.all(all.map((sandbox) => backend.inspect(sandbox)))).toEqual(alone)
      // A list does not tell how a sandbox ended, so the ended one is inspected by itself.
      expect(inspections().slice(before)).toEqual([
        expect.stringContaining("/containers/json?"),
        expect.stringContaining(`/containers/berth-${ended}/json`),
      ])
    })

    it("[R1.14] fail with a typed error each, and are asked for anew later", async () => {
      const all = Array.from({ length: 5 }, () => newId.sandbox())
      const inspectAll = (deadlineMs = DEADLINE_MS) =>
        all.map((sandbox) => backend.inspect(sandbox, { deadlineMs }))
      for (const [fault, code, deadlineMs] of [
        ["hang", "deadline.exceeded", WAITED_FOR_MS],
        ["500", "backend.engine_failed", DEADLINE_MS],
      ] as const) {
        faulty.fail(/\/containers\/json/, fault)
        const failures = await Promise.all(inspectAll(deadlineMs).map(failureOf))
        expect(failures.map((failure) => failure.code)).toEqual(all.map(() => code))
      }
      faulty.fail(/./, undefined)
      expect(await Promise.all(inspectAll())).toEqual(all.map(() => undefined))
    })
  })

  it("creates, lists and removes a sandbox over TCP", async () => {
    const forward = createServer((socket) => {
      const onward = connect(harness.engine.socket)
      pipeline(socket, onward, socket, () => {})
    }).listen(0, "127.0.0.1")
    await once(forward, "listening")
    const { port } = forward.address() as AddressInfo
    const remote = await harness.openThrough({ host: "127.0.0.1", port })
    const spec = specFor(harness)
    await remote.create(spec)
    expect(await remote.list()).toMatchObject([{ identity: spec.identity, state: "created" }])
    await remote.remove(spec.identity.sandbox)
    await remote.close()
    forward.close()
  })

  it("[R1.14] accepts a second start of a sandbox whose first start got no answer", async () => {
    const spec = specFor(harness)
    await backend.create(spec)
    faulty.fail(/\/start/, "lost" satisfies Fault)
    await failureOf(backend.start(spec.identity.sandbox))
    faulty.fail(/./, undefined)
    await backend.start(spec.identity.sandbox)
    expect(await backend.inspect(spec.identity.sandbox)).toMatchObject({ state: "running" })
  })

  describe("the engine's events", () => {
    const collect = (of: Backend) => {
      const stop = new AbortController()
      const seen: BackendEvent[] = []
      const done = (async () => {
        for await (const event of of.watch(stop.signal)) seen.push(event)
      })()
      return {
        seen,
        async [Symbol.asyncDispose]() {
          stop.abort()
          await done
        },
      }
    }

    it("contain a resync after a gap, and continue", async () => {
      await using events = collect(backend)
      faulty.cut()
      await expect.poll(() => events.seen, { timeout: 10_000 }).toContainEqual({ kind: "resync" })
      const spec = specFor(harness, { command: ["/bin/sh", "-c", "exit 5"] })
      await backend.create(spec)
      await backend.start(spec.identity.sandbox)
      await expect
        .poll(() => events.seen, { timeout: 10_000 })
        .toContainEqual(
          expect.objectContaining({
            kind: "exited",
            sandbox: spec.identity.sandbox,
            exit: expect.objectContaining({ code: 5 }),
          }),
        )
    })

    it("[R1.9] let a removal after a gap end processes that the engine no longer knows", async () => {
      const spec = specFor(harness)
      await backend.create(spec)
      await backend.start(spec.identity.sandbox)
      await using events = collect(backend)
      faulty.cut()
      await expect.poll(() => events.seen, { timeout: 10_000 }).toContainEqual({ kind: "resync" })
      const note = join(harness.directory, "sandboxes", spec.identity.sandbox, "note")
      const { engineId } = JSON.parse(await readFile(note, "utf8"))
      const options = { argv0: "containerd-shim-lost" }
      const lost = spawn("/bin/sh", ["-c", "read line", "sh", "-id", engineId], options)
      const ended = once(lost, "exit")
      await backend.remove(spec.identity.sandbox)
      lost.stdin.end()
      expect(await ended).toEqual([null, "SIGKILL"])
    })

    it("[R3.4] continue after the engine was killed and started again, and so do sandboxes", async () => {
      const spec = specFor(harness)
      await backend.create(spec)
      await backend.start(spec.identity.sandbox)
      await using events = collect(backend)
      await harness.engine.restart()
      await expect.poll(() => events.seen, { timeout: 20_000 }).toContainEqual({ kind: "resync" })
      expect(await backend.list()).toMatchObject([{ identity: spec.identity, state: "running" }])
      await backend.stop(spec.identity.sandbox, { graceMs: 5_000 })
      expect(await backend.inspect(spec.identity.sandbox)).toMatchObject({
        exit: { code: 143, reason: "signalled" },
      })
    }, 60_000)
  })

  describe("a create that fails", () => {
    it("names an image that does not exist", async () => {
      const digest = `sha256:${"0".repeat(64)}`
      const failure = await failureOf(
        backend.create(specFor(harness, { system: { kind: "image", digest } })),
      )
      expect(failure).toMatchObject({
        code: "backend.image_unavailable",
        details: { image: digest },
      })
      expect(failure.details.engineSaid).toContain("No such image")
    })

    it("[R1.10] leaves somebody else's container alone, and says that it has the name", async () => {
      const spec = specFor(harness)
      const name = `berth-${spec.identity.sandbox}`
      const theirs = { Image: harness.image, Entrypoint: ["/bin/sh"] }
      await askEngine(harness.engine, "POST", `/containers/create?name=${name}`, theirs)
      try {
        expect(await failureOf(backend.create(spec))).toMatchObject({
          code: "backend.name_taken",
          details: { name },
        })
        await backend.remove(spec.identity.sandbox)
        const { status } = await askEngine(harness.engine, "GET", `/containers/${name}/json`)
        expect(status).toBe(200)
      } finally {
        await askEngine(harness.engine, "DELETE", `/containers/${name}?force=1`)
      }
    })

    it("[R1.12] leaves somebody else's volume alone, and says that it has the name", async () => {
      const mounts = [{ kind: "stack" as const, stack: "files", target: "/workspace" }]
      const overlay = { base: harness.directory, lower: ["l"], upper: "u", work: "w", options: [] }
      const spec = {
        ...specFor(harness, { mounts }),
        overlays: [{ ...overlay, stack: Slug.parse("files") }],
      }
      const name = `berth-${spec.identity.sandbox}-files`
      const theirs = { Name: name, DriverOpts: { type: "tmpfs", device: "tmpfs" } }
      await askEngine(harness.engine, "POST", "/volumes/create", theirs)
      try {
        expect(await failureOf(backend.create(spec))).toMatchObject({
          code: "backend.volume_wrong",
          details: { volume: name, engineSaid: "its labels are not ours" },
        })
        const { body } = await askEngine(harness.engine, "GET", `/volumes/${name}`)
        expect(body).toMatchObject({ Options: theirs.DriverOpts })
      } finally {
        await askEngine(harness.engine, "DELETE", `/volumes/${name}`)
      }
    })

    it("names the part of a configuration that the engine refuses", async () => {
      const hardening = { capabilities: ["NO_SUCH"] }
      expect(await failureOf(backend.create(specFor(harness, { hardening })))).toMatchObject({
        code: "input.invalid",
        details: { engineSaid: expect.stringContaining("NO_SUCH") },
      })
    })

    it("names the supported systems for a system that is no image", async () => {
      const failure = await failureOf(
        backend.create(specFor(harness, { system: { kind: "host" } })),
      )
      expect(failure).toMatchObject({
        code: "backend.unsupported",
        details: { supported: ["image"] },
      })
    })
  })

  it("[R1.14] reports that the engine's disk is full, leaves nothing, and works once there is room", async () => {
    const full = join(harness.engine.data, "full")
    const spec = specFor(harness)
    await run(["dd", "if=/dev/zero", `of=${full}`, "bs=64k"], {
      signal: AbortSignal.timeout(20_000),
    })
    try {
      const failure = await failureOf(
        backend.create(spec).then(() => backend.start(spec.identity.sandbox)),
      )
      expect(failure).toMatchObject({
        code: "backend.disk_full",
        details: {
          engineSaid: expect.stringContaining("no space left"),
          path: harness.engine.data,
        },
      })
      await backend.remove(spec.identity.sandbox)
      expect(await harness.census()).toEqual(empty)
    } finally {
      await rm(full)
    }
    await backend.create(spec)
    await backend.start(spec.identity.sandbox)
  })

  it("[R3.4] makes nothing twice and leaves nothing when the engine is killed amid creations and removals", async () => {
    const specs = Array.from({ length: 8 }, () => specFor(harness))
    const settled = (work: (of: SandboxSpec) => Promise<unknown>) =>
      Promise.all(specs.map((spec) => work(spec).then(() => undefined, asFailure)))
    /** Kills the engine once it has begun to answer more than three of these requests. */
    const killAmid = async (asked: RegExp, work: (of: SandboxSpec) => Promise<unknown>) => {
      const from = faulty.asked.length
      const working = settled(work)
      const begun = () => faulty.asked.slice(from).filter((line) => asked.test(line)).length
      await expect.poll(begun, { interval: 1, timeout: 10_000 }).toBeGreaterThan(3)
      await harness.engine.restart()
      const failures = (await working).filter((each) => each !== undefined)
      expect(failures.length).toBeGreaterThan(0)
      for (const failure of failures) expect(failure).toBeInstanceOf(BerthError)
    }

    await killAmid(/POST \S*\/containers\/create/, (spec) => backend.create(spec))
    await backend.repair()
    expect(await settled((spec) => backend.create(spec))).toEqual(specs.map(() => undefined))
    const ids = (await backend.list()).map(({ identity }) => identity.sandbox)
    expect(ids.toSorted()).toEqual(specs.map(({ identity }) => identity.sandbox).toSorted())
    expect(await harness.census()).toMatchObject({ containers: specs.length })

    await killAmid(/DELETE \S*\/containers/, ({ identity }) => backend.remove(identity.sandbox))
    expect(await settled(({ identity }) => backend.remove(identity.sandbox))).toEqual(
      specs.map(() => undefined),
    )
    expect(await harness.census()).toEqual(empty)
  }, 60_000)

  it("[R1.9] removes a container that an engine made after its creation was given up", async () => {
    const spec = specFor(harness)
    await backend.create(spec)
    await rm(join(harness.directory, "sandboxes", spec.identity.sandbox), { recursive: true })
    await backend.repair()
    expect(await backend.list()).toEqual([])
  })

  it("[R1.4] removes the other leftovers where one removal fails, and reports that one", async () => {
    const [stuck, other] = [specFor(harness), specFor(harness)]
    const engineIds: string[] = []
    for (const spec of [stuck, other]) {
      await backend.create(spec)
      const directory = join(harness.directory, "sandboxes", spec.identity.sandbox)
      engineIds.push(JSON.parse(await readFile(join(directory, "note"), "utf8")).engineId)
      await rm(directory, { recursive: true })
    }
    faulty.fail(new RegExp(`DELETE \\S*/containers/${engineIds[0]}`), "500")
    expect(await backend.repair()).toMatchObject([
      { sandbox: stuck.identity.sandbox, failure: { details: { engineSaid: ERROR_WORDS } } },
    ])
    expect(await backend.list()).toMatchObject([{ identity: stuck.identity }])
  })
})

describe("opening a backend on an engine that does not answer", () => {
  let directory: string
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), "berth-no-engine-"))
  })
  afterAll(() => rm(directory, { recursive: true }))

  const openAt = (socketPath: string) =>
    failureOf(
      openDocker({
        installation: newId.installation(),
        directory,
        image: "none",
        engine: { socketPath },
      }),
    )

  it("[R1.14] fails with the reason when no engine runs", async () => {
    expect(await openAt(join(directory, "none.sock"))).toMatchObject({
      code: "backend.unavailable",
      details: { reason: "not-running", engineSaid: expect.stringContaining("ENOENT") },
    })
  })

  it("[R1.14] fails with a typed error when another program listens on the socket", async () => {
    const socketPath = join(directory, "other.sock")
    const server = createServer((socket) => socket.end("hello\n")).listen(socketPath)
    await once(server, "listening")
    expect(await openAt(socketPath)).toMatchObject({ code: "backend.engine_failed" })
    server.close()
  })

  requires("root").it(
    "[R1.14] fails with backend.forbidden when the server may not use the socket",
    async () => {
      const socketPath = join(directory, "closed.sock")
      const server = createServer((socket) => socket.end()).listen(socketPath)
      await once(server, "listening")
      await chmod(socketPath, 0o600)
      await chmod(directory, 0o755)
      const child = join(import.meta.dirname, "testing/open-child.ts")
      const { stdout } = await run(
        [...AS_NOBODY, process.execPath, "--conditions=source", child, socketPath],
        { signal: AbortSignal.timeout(20_000) },
      )
      server.close()
      expect(JSON.parse(stdout)).toMatchObject({
        code: "backend.forbidden",
        details: { engine: socketPath, engineSaid: expect.stringContaining("EACCES") },
      })
    },
  )
})
