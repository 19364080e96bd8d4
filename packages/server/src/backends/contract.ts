import { statSync } from "node:fs"
import { type BerthError, ERRORS } from "@berth/protocol/errors"
import { type InstallationId, newId, type SandboxId, Slug } from "@berth/protocol/ids"
import { WorkspaceLimits } from "@berth/protocol/limits"
import { SandboxConfig, type SandboxSpec, type SystemIdentity } from "@berth/protocol/sandbox"
import { sized } from "@berth/testing/sampled"
import { sampledCases } from "@berth/testing/sampled-cases"
import { afterAll, afterEach, beforeAll, describe, expect } from "vitest"
import type { z } from "zod"
import { configHash } from "../sandboxes/making/config-hash.ts"
import type { Backend, BackendEvent, ObservedSandbox } from "./backend.ts"

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

/** The bound of what is kept of a sandbox's output, and more than that. */
const MAX_LOG_BYTES = 8 * MIB
const FLOOD_BYTES = MAX_LOG_BYTES + MIB

const MOUNTS_REFUSED = ["/", "/proc", "/proc/x", "/sys", "/dev/shm", "/usr", "/etc/passwd", "/bin"]

interface ContractOptions {
  /** How many cases are drawn, of a twin of what passes the whole suite. Default: all are run. */
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

    /** Stops a sandbox and gives its exit. */
    const stop = async (sandbox: SandboxId, graceMs = GRACE_MS) => {
      await harness.backend.stop(sandbox, { graceMs })
      return (await harness.backend.inspect(sandbox))?.exit
    }

    const state = async (sandbox: SandboxId) => (await harness.backend.inspect(sandbox))?.state

    /** Waits until the first process has written these words. */
    const said = async (sandbox: SandboxId, words: string) =>
      expect.poll(() => harness.backend.logs(sandbox), { timeout: 10_000 }).toContain(words)

    sampledCases(`cases of the backend contract, ${name}`, drawn, (it, describe) => {
      it("says what it can do here", async () => {
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

        it("makes a process end that ignores the request, when its grace is over", async () => {
          const sandbox = await boot({ command: STUBBORN })
          await said(sandbox, "up")
          expect(await stop(sandbox, 50)).toMatchObject({ code: 137, reason: "signalled" })
        })

        it("stops and removes twice as well as once, and what is unknown", async () => {
          const sandbox = await boot()
          const first = await stop(sandbox)
          expect(first).toBeDefined()
          expect(await stop(sandbox)).toEqual(first)
          await harness.backend.remove(sandbox)
          await harness.backend.remove(sandbox)
          await harness.backend.remove(newId.sandbox())
        })

        it("removes by force from every state", async () => {
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

        it("starts a sandbox that runs already without doing anything, and refuses an ended one", async () => {
          const sandbox = await boot()
          await harness.backend.start(sandbox)
          expect(await state(sandbox)).toBe("running")
          const { sandbox: ended } = await run("true")
          await expect(harness.backend.start(ended)).rejects.toMatchObject({
            code: "backend.wrong_state",
          })
        })

        it("makes one sandbox of an id, however many callers ask at once", async () => {
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

        it(`creates, starts and removes ${atOnce} at once`, async () => {
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

      describe("how a sandbox ended", () => {
        it("tells the exit status", async () => {
          const { exit, sandbox } = await run("exit 7")
          expect(exit).toMatchObject({ code: 7, reason: "exited" })
          expect((await harness.backend.inspect(sandbox))?.exit).toEqual(exit)
        })

        it("tells a signal from an exit", async () => {
          const { exit } = await run("kill -KILL $$")
          expect(exit).toMatchObject({ code: 137, reason: "signalled" })
        })

        it("tells a lack of memory from any other end", async () => {
          const { exit } = await run(`exec perl -e '$x = "x" x (512 * 1024 * 1024); sleep 60'`, {
            limits: { memoryBytes: 64 * MIB },
          })
          expect(exit.reason).toBe("out-of-memory")
        })

        it("tells at once, without being asked, and says so when a sandbox is removed", async () => {
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

        it("keeps the end of what was written, and no more than a bound", async () => {
          const { sandbox, output } = await run(
            `echo first; yes 0123456789 | head -c ${FLOOD_BYTES}; echo last`,
          )
          expect(output.trimEnd().endsWith("last")).toBe(true)
          expect(output.length).toBeLessThan(MAX_LOG_BYTES)
          expect(await harness.backend.logs(sandbox)).toBe(output)
        })
      })

      describe("pause", () => {
        it("halts every process and lets them go on", async () => {
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
          // A process that still ran would use time and write within these many turns.
          for (let turn = 0; turn < 20; turn += 1) await harness.backend.inspect(sandbox)
          expect(await harness.backend.logs(sandbox)).toBe(before)
          expect((await harness.backend.stats(sandbox)).cpuSeconds).toBe(halted.cpuSeconds)
          await harness.backend.resume(sandbox)
          expect(await state(sandbox)).toBe("running")
          await expect
            .poll(() => harness.backend.logs(sandbox), { timeout: 10_000 })
            .not.toBe(before)
        })

        it("is undone by a stop, which is as graceful as ever", async () => {
          const sandbox = await boot()
          await said(sandbox, "up")
          await harness.backend.pause(sandbox)
          expect(await stop(sandbox)).toMatchObject({ code: 0, reason: "exited" })
        })

        it("is the same twice, and so is resume", async () => {
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

      describe("what a sandbox is given", () => {
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

        it("says which limits hold, and holds those", async () => {
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

        it("says in a sandbox's status which of its limits do not hold", async () => {
          const { limits } = await harness.backend.describe()
          const observed = await harness.backend.create(specOf())
          for (const [limit, { held }] of Object.entries(limits)) {
            const unheld = observed.unheldLimits.some((each) => each.limit === limit)
            if (!held) expect(unheld).toBe(true)
          }
        })

        it("tells what a sandbox uses", async () => {
          const sandbox = await boot()
          await said(sandbox, "up")
          const stats = await harness.backend.stats(sandbox)
          expect(stats.memoryBytes).toBeGreaterThan(0)
          expect(stats.pids).toBeGreaterThan(0)
          expect(stats.cpuSeconds).toBeGreaterThanOrEqual(0)
        })

        it("gives each sandbox a /workspace, /home and /tmp of its own", async () => {
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

      describe("which sandboxes are ours", () => {
        it("[R1.1] finds sandboxes by their labels: installation, workspace, sandbox, config hash", async () => {
          const spec = specOf()
          await harness.backend.create(spec)
          const listed = await harness.backend.list()
          expect(listed.map((each) => each.identity)).toEqual([spec.identity])
        })

        it("[R1.1] neither lists nor touches another installation's", async () => {
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

        it("[R1.9] finds running, paused and ended sandboxes again after a restart of the server", async () => {
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
            // Where the server measures what its workspace takes.
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

        it("stay while a sandbox has them", async () => {
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

      describe("what cannot be done", () => {
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
          it(`[R1.14] is a typed error: ${name} of an unknown sandbox`, async () => {
            await expect(call(harness.backend)).rejects.toMatchObject({
              code: "backend.unknown_sandbox",
            })
          })
        }

        it("[R1.14] ends a create that is cancelled or late, with nothing left", async () => {
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
          await Promise.all(left.map((sandbox) => harness.backend.remove(sandbox)))
          expect(await harness.census()).toEqual(empty)
        })

        it("[R1.14] keeps the engine's own words when a command cannot be run", async () => {
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
          it(`refuses a mount over ${target}`, async () => {
            const mounts = [{ kind: "directory" as const, source: "/tmp", target }]
            await expect(harness.backend.create(specOf({ mounts }))).rejects.toMatchObject({
              code: "input.invalid",
            })
          })
        }

        it("refuses a mount whose source does not exist", async () => {
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
