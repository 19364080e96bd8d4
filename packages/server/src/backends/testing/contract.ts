import { statSync } from "node:fs"
import { type BerthError, ERRORS } from "@berth/protocol/errors"
import { type InstallationId, newId, type SandboxId, Slug } from "@berth/protocol/ids"
import { WorkspaceLimits } from "@berth/protocol/limits"
import { SandboxConfig, type SandboxSpec, type SystemIdentity } from "@berth/protocol/sandbox"
import { sized } from "@berth/testing/sampled"
import { sampledCases } from "@berth/testing/sampled-cases"
import { afterAll, afterEach, beforeAll, describe, expect } from "vitest"
import type { z } from "zod"
import { configHash } from "../../sandboxes/making/config-hash.ts"
import type { Backend, BackendEvent, ObservedSandbox } from "../backend.ts"

/** A backend to test against the contract: the real engine, and a census of its traces. */
export interface ContractHarness {
  readonly backend: Backend
  readonly installation: InstallationId
  /** A system with /bin/sh, coreutils and perl. */
  readonly system: SystemIdentity
  /** The same installation as a new server finds it. */
  reopen(): Promise<Backend>
  /** Another installation on the same engine. */
  other(): Promise<{ backend: Backend; installation: InstallationId }>
  /** Everything that this installation has on the host, counted by kind: processes, mounts, cgroups, … */
  census(): Promise<Record<string, number>>
  close(): Promise<void>
}

type ConfigInput = z.input<typeof SandboxConfig>

/** A first process that runs until it is asked to end, then ends well. */
const WAIT = ["/bin/sh", "-c", "trap 'exit 0' TERM; echo up; while :; do sleep 0.02; done"]
/** A first process that ignores SIGTERM, so that only SIGKILL ends it. */
const STUBBORN = ["/bin/sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.02; done"]

/** A first process that runs until it is ended, and takes no processor time from the others. */
const IDLE = ["/bin/sh", "-c", "exec sleep 1000"]

const MIB = 1024 * 1024
/** The deadline for twenty sandboxes at once on a busy machine, where an engine takes half a second for one. */
const MANY = { deadlineMs: 60_000 }
/** Longer than any grace that a well-behaved process needs here. */
const GRACE_MS = 5_000

/** The most output that a backend keeps of a sandbox, and an output that is longer. */
const MAX_LOG_BYTES = 8 * MIB
const FLOOD_BYTES = MAX_LOG_BYTES + MIB

const MOUNTS_REFUSED = ["/", "/proc", "/proc/x", "/sys", "/dev/shm", "/usr", "/etc/passwd", "/bin"]

interface ContractOptions {
  /** How many cases a partial run draws, where a twin of this backend passes the whole suite. Default: all. */
  readonly drawn?: number
}

/** The suite that every backend passes in full in a whole run, against the real thing. */
export const backendContract = (
  name: string,
  open: () => Promise<ContractHarness>,
  { drawn }: ContractOptions = {},
) => {
  const atOnce = sized(`sandboxes at once, ${name}`, { few: 6, all: 20 })
  describe(`backend contract: ${name}`, () => {
    let harness: ContractHarness
    let empty: Record<string, number>
    const made = new Set<SandboxId>()

    beforeAll(async () => {
      harness = await open()
      await harness.backend.recover()
      empty = await harness.census()
    })

    afterEach(async () => {
      await Promise.all([...made].map((sandbox) => harness.backend.remove(sandbox)))
      made.clear()
      expect(await harness.census()).toEqual(empty)
    })

    afterAll(() => harness?.close())

    const specOf = (config: Partial<ConfigInput> = {}, sandbox = newId.sandbox()): SandboxSpec => {
      made.add(sandbox)
      const whole = SandboxConfig.parse({ system: harness.system, command: WAIT, ...config })
      const { installation } = harness
      const workspace = Slug.parse("contract")
      return {
        identity: { installation, workspace, sandbox, configHash: configHash(whole) },
        config: whole,
      }
    }

    const boot = async (config: Partial<ConfigInput> = {}): Promise<SandboxId> => {
      const spec = specOf(config)
      await harness.backend.create(spec)
      await harness.backend.start(spec.identity.sandbox)
      return spec.identity.sandbox
    }

    const run = async (script: string, config: Partial<ConfigInput> = {}) => {
      const spec = specOf({ ...config, command: ["/bin/sh", "-c", script] })
      const { sandbox } = spec.identity
      await using exits = exitsOf(harness.backend)
      await harness.backend.create(spec)
      await harness.backend.start(sandbox)
      const exit = await exits.of(sandbox)
      return { sandbox, exit, output: await harness.backend.logs(sandbox) }
    }

    /** Stops a sandbox and returns its exit. */
    const stop = async (sandbox: SandboxId, graceMs = GRACE_MS) => {
      await harness.backend.stop(sandbox, { graceMs })
      return (await harness.backend.inspect(sandbox))?.exit
    }

    const state = async (sandbox: SandboxId) => (await harness.backend.inspect(sandbox))?.state

    /** Waits until the first process has written these words. */
    const said = async (sandbox: SandboxId, words: string) =>
      expect.poll(() => harness.backend.logs(sandbox), { timeout: 10_000 }).toContain(words)

    sampledCases(`cases of the backend contract, ${name}`, drawn, (it, describe) => {
      it("describes its engine and capabilities", async () => {
        expect(await harness.backend.describe()).toMatchObject({
          backend: harness.backend.name,
          engine: expect.stringMatching(/\d/),
          pause: expect.any(Boolean),
          layers: expect.any(Boolean),
          networks: expect.arrayContaining(["none"]),
          notes: expect.any(Array),
        })
      })

      describe("the life of a sandbox", () => {
        it("creates, starts, stops with grace and removes, and leaves nothing behind", async () => {
          const spec = specOf()
          const { sandbox } = spec.identity
          const created = await harness.backend.create(spec)
          expect(created).toMatchObject({ identity: spec.identity, state: "created" })
          await harness.backend.start(sandbox)
          expect(await state(sandbox)).toBe("running")
          await said(sandbox, "up")
          expect(await stop(sandbox)).toMatchObject({ code: 0, reason: "exited" })
          expect(await state(sandbox)).toBe("exited")
          await harness.backend.remove(sandbox)
          expect(await harness.backend.inspect(sandbox)).toBeUndefined()
          expect(await harness.census()).toEqual(empty)
        })

        it("kills a process that ignores the stop after its grace period", async () => {
          const sandbox = await boot({ command: STUBBORN })
          await said(sandbox, "up")
          expect(await stop(sandbox, 50)).toMatchObject({ code: 137, reason: "signalled" })
        })

        it("stops twice, and removes twice and an unknown sandbox, without error", async () => {
          const sandbox = await boot()
          const first = await stop(sandbox)
          expect(first).toBeDefined()
          expect(await stop(sandbox)).toEqual(first)
          await harness.backend.remove(sandbox)
          await harness.backend.remove(sandbox)
          await harness.backend.remove(newId.sandbox())
        })

        it("removes created, running, paused and exited sandboxes by force", async () => {
          const created = specOf()
          await harness.backend.create(created)
          const running = await boot({ command: STUBBORN })
          const paused = await boot()
          await harness.backend.pause(paused)
          const { sandbox: exited } = await run("exit 3")
          const all = [created.identity.sandbox, running, paused, exited]
          await Promise.all(all.map((sandbox) => harness.backend.remove(sandbox)))
          expect(await harness.backend.list()).toEqual([])
          expect(await harness.census()).toEqual(empty)
        })

        it("leaves a running sandbox as it is when it is started again, and refuses to start an ended one", async () => {
          const sandbox = await boot()
          await harness.backend.start(sandbox)
          expect(await state(sandbox)).toBe("running")
          const { sandbox: ended } = await run("true")
          await expect(harness.backend.start(ended)).rejects.toMatchObject({
            code: "backend.wrong_state",
          })
        })

        it("makes one sandbox of an id for three callers at the same time", async () => {
          const spec = specOf()
          const all = await Promise.all([1, 2, 3].map(() => harness.backend.create(spec)))
          expect(new Set(all.map((each) => each.createdAt)).size).toBe(1)
          expect(await harness.backend.list()).toHaveLength(1)
          await harness.backend.start(spec.identity.sandbox)
          expect(await harness.backend.create(spec)).toMatchObject({ state: "running" })
        })

        it("refuses another configuration under an id that exists", async () => {
          const spec = specOf()
          await harness.backend.create(spec)
          const changed = specOf({ environment: { A: "1" } }, spec.identity.sandbox)
          await expect(harness.backend.create(changed)).rejects.toMatchObject({
            code: "backend.conflict",
          })
          expect(await state(spec.identity.sandbox)).toBe("created")
        })

        it(`creates, starts and removes ${atOnce} sandboxes at once`, async () => {
          const specs = Array.from({ length: atOnce }, () => specOf({ command: IDLE }))
          await Promise.all(
            specs.map(async (spec) => {
              await harness.backend.create(spec, MANY)
              await harness.backend.start(spec.identity.sandbox, MANY)
            }),
          )
          const listed = await harness.backend.list()
          expect(listed.filter((each) => each.state === "running")).toHaveLength(atOnce)
          await Promise.all(
            specs.map((spec) => harness.backend.remove(spec.identity.sandbox, MANY)),
          )
          expect(await harness.census()).toEqual(empty)
        }, 200_000)
      })

      describe("the exit of a sandbox", () => {
        it("has the status of the first process", async () => {
          const { exit, sandbox } = await run("exit 7")
          expect(exit).toMatchObject({ code: 7, reason: "exited" })
          expect((await harness.backend.inspect(sandbox))?.exit).toEqual(exit)
        })

        it("tells a signal from a status", async () => {
          const { exit } = await run("kill -KILL $$")
          expect(exit).toMatchObject({ code: 137, reason: "signalled" })
        })

        it("tells a lack of memory from any other end", async () => {
          const { exit } = await run(`exec perl -e '$x = "x" x (512 * 1024 * 1024); sleep 60'`, {
            limits: { memoryBytes: 64 * MIB },
          })
          expect(exit.reason).toBe("out-of-memory")
        })

        it("is reported once by an event, and so is a removal", async () => {
          await using events = collect(harness.backend)
          const sandbox = await boot({ command: ["/bin/sh", "-c", "exit 4"] })
          await expect
            .poll(() => events.seen, { timeout: 10_000, interval: 5 })
            .toContainEqual(
              expect.objectContaining({
                kind: "exited",
                sandbox,
                exit: expect.objectContaining({ code: 4 }),
              }),
            )
          await harness.backend.remove(sandbox)
          await expect.poll(() => events.seen).toContainEqual({ kind: "removed", sandbox })
          const exits = events.seen.filter((event) => event.kind === "exited")
          expect(exits.filter((event) => event.sandbox === sandbox)).toHaveLength(1)
        })

        it("leaves the end of the output to read, within a bound", async () => {
          const { sandbox, output } = await run(
            `echo first; yes 0123456789 | head -c ${FLOOD_BYTES}; echo last`,
          )
          expect(output.trimEnd().endsWith("last")).toBe(true)
          expect(output.length).toBeLessThan(MAX_LOG_BYTES)
          expect(await harness.backend.logs(sandbox)).toBe(output)
        })
      })

      describe("pause", () => {
        it("halts the processes of a sandbox, and resume lets them continue", async () => {
          const sandbox = await boot({
            command: [
              "/bin/sh",
              "-c",
              "trap 'exit 0' TERM; while :; do echo tick; sleep 0.02; done",
            ],
          })
          await said(sandbox, "tick")
          await harness.backend.pause(sandbox)
          expect(await state(sandbox)).toBe("paused")
          const halted = await harness.backend.stats(sandbox)
          const before = await harness.backend.logs(sandbox)
          // A process that still ran would use processor time and write within this many turns.
          for (let turn = 0; turn < 20; turn += 1) await harness.backend.inspect(sandbox)
          expect(await harness.backend.logs(sandbox)).toBe(before)
          expect((await harness.backend.stats(sandbox)).cpuSeconds).toBe(halted.cpuSeconds)
          await harness.backend.resume(sandbox)
          expect(await state(sandbox)).toBe("running")
          await expect
            .poll(() => harness.backend.logs(sandbox), { timeout: 10_000 })
            .not.toBe(before)
        })

        it("is undone by a stop, which stays graceful", async () => {
          const sandbox = await boot()
          await said(sandbox, "up")
          await harness.backend.pause(sandbox)
          expect(await stop(sandbox)).toMatchObject({ code: 0, reason: "exited" })
        })

        it("is idempotent, and so is resume", async () => {
          const sandbox = await boot()
          await harness.backend.resume(sandbox)
          await harness.backend.pause(sandbox)
          await harness.backend.pause(sandbox)
          expect(await state(sandbox)).toBe("paused")
          await harness.backend.resume(sandbox)
          await harness.backend.resume(sandbox)
          expect(await state(sandbox)).toBe("running")
        })
      })

      describe("the inside of a sandbox", () => {
        it("runs the command with its environment, and with nothing of the server's", async () => {
          const { output } = await run("env", { environment: { GIVEN: "a b=c\n$d" } })
          expect(output).toContain("GIVEN=a b=c\n$d")
          const names = [...output.matchAll(/^([A-Z_]+)=/gm)].map((match) => match[1])
          const usual = [
            "GIVEN",
            "HOME",
            "HOSTNAME",
            "LANG",
            "PATH",
            "PWD",
            "SHLVL",
            "TERM",
            "USER",
            "_",
          ]
          expect(names.filter((variable) => !usual.includes(variable ?? ""))).toEqual([])
        })

        it("has the limits for open files, /tmp and processes that the backend reports as held", async () => {
          const { limits } = await harness.backend.describe()
          expect(Object.keys(limits).sort()).toEqual(Object.keys(WorkspaceLimits.shape).sort())
          const asked = { memoryBytes: 256 * MIB, pids: 64, openFiles: 777, tmpBytes: 2 * MIB }
          const script = [
            "ulimit -n",
            "head -c 4000000 /dev/zero > /tmp/big 2>/dev/null; stat -c %s /tmp/big",
            "perl -e '$| = 1; my $n = 0; while (defined(my $p = fork())) { if (!$p) { sleep 5; exit } last if ++$n > 200 } print \"forked $n\\n\"; kill 9, -1'",
          ]
          const { output } = await run(script.join("\n"), { limits: asked })
          if (limits.openFiles.held) expect(output).toMatch(/^777$/m)
          if (limits.tmpBytes.held) expect(output).toMatch(/^2097152$/m)
          if (limits.pids.held) expect(Number(/forked (\d+)/.exec(output)?.[1])).toBeLessThan(64)
        })

        it("comes with a status that lists exactly the limits that are not held", async () => {
          const { limits } = await harness.backend.describe()
          const observed = await harness.backend.create(specOf())
          for (const [limit, { held }] of Object.entries(limits)) {
            const unheld = observed.unheldLimits.some((each) => each.limit === limit)
            expect(unheld).toBe(!held)
          }
        })

        it("is measured by its memory, processes and processor time", async () => {
          const sandbox = await boot()
          await said(sandbox, "up")
          const stats = await harness.backend.stats(sandbox)
          expect(stats.memoryBytes).toBeGreaterThan(0)
          expect(stats.pids).toBeGreaterThan(0)
          expect(stats.cpuSeconds).toBeGreaterThanOrEqual(0)
        })

        it("has a /workspace, /home and /tmp of its own", async () => {
          const script =
            "ls -A /workspace /tmp; for d in /workspace /home /tmp; do echo x > $d/mine && echo wrote $d; done"
          for (const _ of [1, 2]) {
            const { output } = await run(script)
            expect(output).not.toContain("mine")
            expect(output).toContain("wrote /workspace\nwrote /home\nwrote /tmp")
          }
        })

        it("has no network but its own loopback under the policy none", async () => {
          const { output } = await run(
            "cat /proc/net/dev | tail -n +3 | cut -d: -f1; cat /proc/net/route | tail -n +2",
          )
          expect(output.trim()).toBe("lo")
        })
      })

      describe("the sandboxes of an installation", () => {
        it("[R1.1] are listed by their labels: installation, workspace, sandbox, config hash", async () => {
          const spec = specOf()
          await harness.backend.create(spec)
          const listed = await harness.backend.list()
          expect(listed.map((each) => each.identity)).toEqual([spec.identity])
        })

        it("[R1.1] are listed without those of another installation, which calls do not touch", async () => {
          const { backend, installation } = await harness.other()
          await backend.recover()
          const foreign = specOf()
          made.delete(foreign.identity.sandbox)
          const theirs: SandboxSpec = {
            ...foreign,
            identity: { ...foreign.identity, installation },
          }
          await backend.create(theirs)
          try {
            expect(await harness.backend.list()).toEqual([])
            expect(await harness.backend.inspect(theirs.identity.sandbox)).toBeUndefined()
            await harness.backend.remove(theirs.identity.sandbox)
            expect(await backend.inspect(theirs.identity.sandbox)).toMatchObject({
              state: "created",
            })
            await expect(harness.backend.create(theirs)).rejects.toMatchObject({
              code: "input.invalid",
            })
          } finally {
            await backend.remove(theirs.identity.sandbox)
          }
        })

        it("[R1.9] are found running, paused and ended after a restart of the server", async () => {
          const [running, paused] = [await boot(), await boot()]
          await harness.backend.pause(paused)
          const { sandbox: ended, exit } = await run("exit 9")
          const again = await harness.reopen()
          await again.recover()
          const states = new Map((await again.list()).map((each) => [each.identity.sandbox, each]))
          expect(states.get(running)).toMatchObject({ state: "running" })
          expect(states.get(paused)).toMatchObject({ state: "paused" })
          expect(states.get(ended)).toMatchObject({ state: "exited", exit })
          await again.resume(paused)
          await using exits = exitsOf(again)
          await again.stop(running, { graceMs: GRACE_MS })
          expect(await exits.of(running)).toMatchObject({ code: 0 })
        })
      })

      describe("caches", () => {
        const workspace = Slug.parse("contract")
        const names = async () =>
          (await harness.backend.listCaches()).map(({ cache }) => cache).toSorted()

        it("are listed with the time of their last use, and removed, but not another installation's", async () => {
          const { backend: theirs } = await harness.other()
          await theirs.ensureCaches(workspace, ["npm"])
          const before = Date.now()
          await harness.backend.ensureCaches(workspace, ["npm", "go"])
          const found = await harness.backend.listCaches()
          expect(found.map((each) => each.workspace)).toEqual([workspace, workspace])
          for (const { usedAt, directory } of found) {
            expect(Date.parse(usedAt ?? "")).toBeGreaterThanOrEqual(before - 1)
            // The server measures the disk usage of the workspace here.
            expect(statSync(directory ?? "").isDirectory()).toBe(true)
          }
          expect(await names()).toEqual(["go", "npm"])

          expect(await harness.backend.removeCache(workspace, "npm")).toBe(true)
          expect(await harness.backend.removeCache(workspace, "npm")).toBe(true)
          expect(await names()).toEqual(["go"])
          expect(await theirs.listCaches()).toMatchObject([{ workspace, cache: "npm" }])
          await theirs.removeCache(workspace, "npm")
          await harness.backend.removeCache(workspace, "go")
        })

        it("are not removed while a sandbox has them", async () => {
          await harness.backend.ensureCaches(workspace, ["pip"])
          const mounts = [{ kind: "cache" as const, cache: "pip" as const, target: "/cache" }]
          const sandbox = await boot({ mounts })
          expect(await harness.backend.removeCache(workspace, "pip")).toBe(false)
          expect(await names()).toEqual(["pip"])
          await harness.backend.remove(sandbox)
          expect(await harness.backend.removeCache(workspace, "pip")).toBe(true)
          expect(await names()).toEqual([])
        })
      })

      describe("a call that cannot succeed", () => {
        const unknown = newId.sandbox()
        const calls: Record<string, (backend: Backend) => Promise<unknown>> = {
          start: (backend) => backend.start(unknown),
          stop: (backend) => backend.stop(unknown, { graceMs: 1 }),
          pause: (backend) => backend.pause(unknown),
          resume: (backend) => backend.resume(unknown),
          stats: (backend) => backend.stats(unknown),
          logs: (backend) => backend.logs(unknown),
        }
        for (const [name, call] of Object.entries(calls)) {
          it(`[R1.14] fails with a typed error: ${name} of an unknown sandbox`, async () => {
            await expect(call(harness.backend)).rejects.toMatchObject({
              code: "backend.unknown_sandbox",
            })
          })
        }

        it("[R1.14] leaves nothing: a create that is cancelled or misses its deadline", async () => {
          const cancelled = AbortSignal.abort()
          const failures: BerthError[] = []
          for (const call of [{ signal: cancelled }, { deadlineMs: 1 }, { deadlineMs: 8 }]) {
            const spec = specOf()
            await harness.backend.create(spec, call).catch((error) => failures.push(error))
          }
          for (const failure of failures) {
            expect(ERRORS).toHaveProperty([failure.code])
            expect(["cancelled", "deadline.exceeded"]).toContain(failure.code)
          }
          expect(failures.length).toBeGreaterThanOrEqual(2)
          const left = (await harness.backend.list()).map((each) => each.identity.sandbox)
          expect(left).toHaveLength(3 - failures.length)
          await Promise.all(left.map((sandbox) => harness.backend.remove(sandbox)))
          expect(await harness.census()).toEqual(empty)
        })

        it("[R1.14] tells the engine's own words: a command that does not exist", async () => {
          const spec = specOf({ command: ["/no/such/program"] })
          const failure = await harness.backend
            .create(spec)
            .then(() => harness.backend.start(spec.identity.sandbox))
            .then(
              () => exitOnce(harness.backend, spec.identity.sandbox),
              (error: BerthError) => error,
            )
          if (failure instanceof Error) {
            expect(failure.details).toHaveProperty(
              "engineSaid",
              expect.stringContaining("/no/such/program"),
            )
          } else {
            expect(failure.code).not.toBe(0)
            expect(await harness.backend.logs(spec.identity.sandbox)).toContain("/no/such/program")
          }
        })

        for (const target of MOUNTS_REFUSED) {
          it(`is refused: a mount over ${target}`, async () => {
            const mounts = [{ kind: "directory" as const, source: "/tmp", target }]
            await expect(harness.backend.create(specOf({ mounts }))).rejects.toMatchObject({
              code: "input.invalid",
            })
          })
        }

        it("is refused: a mount whose source does not exist", async () => {
          const mounts = [
            { kind: "directory" as const, source: "/no/such/source", target: "/data" },
          ]
          await expect(harness.backend.create(specOf({ mounts }))).rejects.toMatchObject({
            code: "backend.mount_invalid",
          })
        })
      })
    })
  })
}

/** Gathers a backend's events from now on. */
const collect = (backend: Backend) => {
  const stop = new AbortController()
  const seen: BackendEvent[] = []
  const events = backend.watch(stop.signal)
  const done = (async () => {
    for await (const event of events) seen.push(event)
  })()
  return {
    seen,
    async [Symbol.asyncDispose]() {
      stop.abort()
      await done
    },
  }
}

/** Waits for a sandbox's end by the backend's events. */
const exitsOf = (backend: Backend) => {
  const events = collect(backend)
  return {
    async of(sandbox: SandboxId) {
      let exit: ObservedSandbox["exit"]
      await expect
        .poll(
          () => {
            for (const event of events.seen) {
              if (event.kind === "exited" && event.sandbox === sandbox) exit = event.exit
            }
            return exit
          },
          { timeout: 20_000, interval: 5 },
        )
        .toBeDefined()
      if (exit === undefined) throw new Error("the sandbox did not end")
      return exit
    },
    [Symbol.asyncDispose]: () => events[Symbol.asyncDispose](),
  }
}

const exitOnce = async (backend: Backend, sandbox: SandboxId) => {
  await expect
    .poll(async () => (await backend.inspect(sandbox))?.state, { timeout: 10_000 })
    .toBe("exited")
  const exit = (await backend.inspect(sandbox))?.exit
  if (exit === undefined) throw new Error("an ended sandbox tells its exit")
  return exit
}
