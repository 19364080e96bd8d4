import { randomBytes } from "node:crypto"
import { readdir, readFile, stat } from "node:fs/promises"
import { join } from "node:path"
import type { InstallationId, SandboxId } from "@berth/protocol/ids"
import { TOOLBOX_TARGET } from "@berth/protocol/inside"
import type { SystemIdentity } from "@berth/protocol/sandbox"
import { requires } from "@berth/testing/requires"
import { sized } from "@berth/testing/sampled"
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest"
import { run as runProgram } from "../host/run.ts"
import type { Backend } from "./backend.ts"
import type { Attempt, Differences, Given, GivenNetwork } from "./testing/attempt.ts"
import { CLOSED_ATTEMPTS } from "./testing/attempts.ts"
import {
  AT_THE_END,
  CONNECTION_FLOOD,
  COUNTED,
  COUNTED_BY_NUMBER,
  COUNTED_PROBES,
  connectionFloodScript,
  DISK_FILL,
  type Endless,
  EXHAUSTION_LIMITS,
  FILLING_ATTEMPTS,
  FORK_BOMB,
  MEMORY_BOMB,
  MEMORY_BY_FILES,
  NUMBERED_PROBES,
  OUTLIVING,
  OUTPUT_FLOOD,
  outlivingScript,
} from "./testing/escapes/exhaustion.ts"
import { NEIGHBOUR_READY, neighbourScript } from "./testing/escapes/neighbour.ts"
import { KNOCKING, LISTED, listedIn, OPEN_ATTEMPTS, STRAY } from "./testing/escapes/network.ts"
import { MOUNTED_FILE, WRITABLE_MOUNT } from "./testing/escapes/system.ts"
import { OTHERS_AT_WORK, WATCHER, WATCHING } from "./testing/escapes/watching.ts"
import { prelude, readTried, type Tried, tryingCommand } from "./testing/inside.ts"
import { newSecret, type Planted, plant } from "./testing/planted.ts"
import { type ConfigInput, POLL, type Sandboxes, sandboxesOf } from "./testing/sandboxes.ts"

/** A backend to test: a server of its own, in a network that the harness plays. */
export interface IsolationHarness {
  readonly backend: Pick<
    Backend,
    "create" | "start" | "stop" | "remove" | "inspect" | "logs" | "stats" | "describe"
  >
  readonly installation: InstallationId
  /** A system with /bin/sh, coreutils and perl. */
  readonly system: SystemIdentity
  /** The server's data directory, and sockets that answer every connection with `… hears …`. */
  readonly directory: string
  readonly serverSockets: Given["serverSockets"]
  readonly network: IsolationNetwork
  /** Everything that this installation has on the host, counted by kind: processes, mounts, cgroups, … */
  census(): Promise<Record<string, number>>
  /** The number of the host's processes with this argument. */
  processesWith(argument: string): Promise<number>
  close(): Promise<void>
}

/** Hosts on this machine, each with a listener that answers `… hears …` and remembers packets. */
export interface IsolationNetwork extends Omit<GivenNetwork, "neighbour"> {
  /** The answer to a connection from the host. */
  dial(address: string, port: number): Promise<string>
  /** The number of connections that the host's kernel tracks. */
  tracked(): Promise<number>
  /** Waits for this packet, and gives all that have come to any listener by then. */
  packetsUntil(last: string): Promise<readonly string[]>
  /** Runs the work while the rules between sandboxes and the rest are away. */
  withoutFence<Result>(work: () => Promise<Result>): Promise<Result>
}

export interface IsolationOptions {
  /** A secret in the environment of the server. */
  readonly serverSecret: string
  /** The size of the disk that the server's data lies on. Default: the machine's own. */
  readonly diskBytes?: number
}

const MIB = 1024 * 1024
const GRACE_MS = 5_000
/** Larger than the output that any backend keeps, and far smaller than the flood. */
const MOST_LOG_BYTES = 2 * MIB
/** A disk that holds what a sandbox needs to boot, and is soon full. */
const SMALL_DISK_BYTES = 48 * MIB

/**
 * Neither filter nor no-new-privileges, and with the capabilities that the attempts lack: only the namespaces are left.
 */
const UNHARDENED: ConfigInput["hardening"] = {
  capabilities: [
    ...["CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID"],
    ...["MKNOD", "NET_ADMIN", "NET_RAW", "SETFCAP", "SETPCAP", "SYS_ADMIN"],
    ...["SYS_CHROOT", "SYS_NICE", "SYS_PTRACE", "SYS_TTY_CONFIG"],
  ],
  noNewPrivileges: false,
  seccomp: "off",
}

const UNHARDENED_ATTEMPTS = [...CLOSED_ATTEMPTS, ...OPEN_ATTEMPTS].filter(
  ({ succeedsUnhardened }) => succeedsUnhardened,
)

const onThisMachine = (attempts: readonly Attempt[]) =>
  attempts.filter(({ onlyOn }) => onlyOn === undefined || onlyOn === process.arch)

/**
 * The parts of the suite. `escapes` is the ways out, `no-network` adds what a sandbox can use up, `whole` adds the
 * network. A part leaves out what another run of the suite has shown. In a whole run it is the whole.
 */
const PARTS = { escapes: 1, "no-network": 2, whole: 3 } as const
type Part = keyof typeof PARTS

interface Extent {
  readonly part?: Part
  /** Whether a sandbox fills a small disk, too: of a whole suite, on a host of its own. */
  readonly onSmallDisk?: boolean
}

/** The escape attempts that every backend withstands, from inside real sandboxes. docs/SECURITY.md lists them. */
export const isolationSuite = (
  name: string,
  open: (options: IsolationOptions) => Promise<IsolationHarness>,
  differences: Differences = {},
  { part = "whole", onSmallDisk = true }: Extent = {},
) => {
  const extent = sized(`parts of the isolation suite, ${name}`, {
    few: PARTS[part],
    all: PARTS.whole,
  })
  const isWhole = extent === PARTS.whole
  const describeWhole = (title: string, body: () => void) => {
    if (isWhole) describe(title, body)
  }
  describe(`isolation: ${name}`, () => {
    let harness: IsolationHarness
    let sandboxes: Sandboxes
    let planted: Planted
    let given: Given
    let empty: Record<string, number>
    let before: Record<string, unknown>
    let neighbour: SandboxId | undefined
    /** The outcomes of the attempts, by the sandbox that made them. */
    let closed: ReadonlyMap<string, Tried>
    let connected: ReadonlyMap<string, Tried>
    let listed: ReadonlyMap<string, Tried>
    let unhardened: ReadonlyMap<string, Tried>
    let unfenced: ReadonlyMap<string, Tried>
    let packets: { readonly fenced: readonly string[]; readonly unfenced: readonly string[] }

    beforeAll(async () => {
      harness = await open({ serverSecret: newSecret("server") })
      sandboxes = sandboxesOf(harness)
      empty = await harness.census()
      planted = await plant(harness.directory)
      before = await planted.look()
      const { network, serverSockets } = harness
      neighbour = await sandboxes.boot(
        running(neighbourScript(network.ports.any, network.internet)),
        {
          network: { kind: "open" },
          environment: { NEIGHBOUR_SECRET: newSecret("neighbour") },
        },
      )
      const said = await sandboxes.said(neighbour, NEIGHBOUR_READY)
      const address = NEIGHBOUR_READY.exec(said)?.[1] ?? ""
      given = { ...planted, serverSockets, network: { ...network, neighbour: address } }
      // Includes the host and the neighbour, which no list opens.
      const allow = [listedIn(given.network), network.host, address].map((it) => `${it}/32`)
      ;[closed, unhardened] = await Promise.all([
        attempt(CLOSED_ATTEMPTS, { mounts: planted.mounts }),
        attempt(UNHARDENED_ATTEMPTS, { hardening: UNHARDENED }),
      ])
      if (!isWhole) return
      ;[connected, listed] = await Promise.all([
        attempt(OPEN_ATTEMPTS, { network: { kind: "open" } }),
        attempt([LISTED], { network: { kind: "open", allow } }),
      ])
      const fenced = await network.packetsUntil("last")
      unfenced = await attemptUnfenced()
      packets = { fenced, unfenced: await network.packetsUntil("last") }
    })

    afterAll(async () => {
      if (neighbour !== undefined) await harness.backend.remove(neighbour)
      const left = await harness?.census()
      await planted?.remove()
      await harness?.close()
      expect(left).toEqual(empty)
    })

    const attempt = async (attempts: readonly Attempt[], config: ConfigInput) => {
      const command = tryingCommand(onThisMachine(attempts), given, process.arch)
      return readTried((await sandboxes.run(command, config)).output)
    }

    /** The sandbox is made while the rules stand and waits for their end, since making one restores them. */
    const attemptUnfenced = async () => {
      const command = tryingCommand([KNOCKING, ...OPEN_ATTEMPTS], given, process.arch)
      const sandbox = await sandboxes.boot(command, { network: { kind: "open" } })
      try {
        await harness.network.withoutFence(() => sandboxes.ended(sandbox))
        return readTried(await harness.backend.logs(sandbox))
      } finally {
        await harness.backend.remove(sandbox)
      }
    }

    const itFails = (attempts: readonly Attempt[], made: () => ReadonlyMap<string, Tried>) => {
      for (const attempt of onThisMachine(attempts)) {
        const { sees } = differences[attempt.name] ?? attempt
        it(`cannot ${attempt.name}`, () => expectFailure(sees, made().get(attempt.name)))
      }
    }

    describe("a sandbox without a network", () => {
      itFails(CLOSED_ATTEMPTS, () => closed)

      for (const { name } of onThisMachine(UNHARDENED_ATTEMPTS)) {
        it(`could, if it were not hardened: ${name}`, () => {
          expect(unhardened.get(name)?.tries.map(({ outcome }) => outcome)).toContain("ok")
        })
      }

      it("could write to a read-only mount's files where they are mounted writable", async () => {
        const script = `echo x > ${WRITABLE_MOUNT}/${MOUNTED_FILE}-2 && echo done`
        const { mounts } = planted
        const { output } = await sandboxes.run(["/bin/sh", "-c", script], { mounts })
        expect(output).toBe("done\n")
      })
    })

    describe("a sandbox beside others", () => {
      it(`cannot ${WATCHER.name}`, async () => {
        const [readOnly] = planted.mounts
        // An image must have the libraries of the toolbox's programs, and the suite's image has not.
        const hasToolbox = readOnly !== undefined && harness.system.kind === "host"
        const mounts = hasToolbox ? [{ ...readOnly, target: TOOLBOX_TARGET }] : []
        const watcher = await sandboxes.boot(running(WATCHER.script), { mounts })
        try {
          await sandboxes.said(watcher, WATCHING)
          const { output: other } = await sandboxes.run(running(OTHERS_AT_WORK), { mounts })
          const onHost = running(OTHERS_AT_WORK) as [string, ...string[]]
          const { stdout: host } = await runProgram(onHost, {
            signal: AbortSignal.timeout(POLL.timeout),
            deadlineMs: POLL.timeout,
          })
          expect({ host, other }).toEqual({
            host: expect.stringMatching(/^(try .*: ok\n){5,}$/),
            other: expect.stringMatching(/^(try .*: ok\n){5,}$/),
          })
          await harness.backend.stop(watcher, { graceMs: GRACE_MS })
          const said = await harness.backend.logs(watcher)
          expect(said).toMatch(/^its own: .*\/usr\/bin\/env/m)
          expect(said).toContain(`${AT_THE_END}: nothing\n`)
        } finally {
          await harness.backend.remove(watcher)
        }
      })
    })

    describeWhole("a sandbox with the internet", () => {
      it("has a host with listeners on its loopback and over IPv6", async () => {
        const { dial, hostIpv6, ports } = harness.network
        expect(await dial("127.0.0.1", ports.loopback)).toContain(" hears ")
        expect(await dial(hostIpv6, ports.any)).toContain(" hears ")
      })

      it("reaches the internet", async () => {
        const { internet, ports } = harness.network
        const script = `try_to("internet", sub { dial("${internet}", ${ports.any}) });`
        const { output } = await sandboxes.run(running(script), { network: { kind: "open" } })
        expect(output).toBe("try internet: heard\n")
      })

      itFails(OPEN_ATTEMPTS, () => connected)
      itFails([LISTED], () => listed)

      for (const { name } of OPEN_ATTEMPTS.filter((it) => it.heardUnfenced)) {
        it(`could, if the host had no rules: ${name}`, () => {
          const outcomes = unfenced.get(name)?.tries.map(({ outcome }) => outcome)
          expect(new Set(outcomes)).toEqual(new Set(["heard"]))
        })
      }

      it("has no packet arrive where no connection leads; without the rules, they do", () => {
        const stray = (texts: readonly string[]) => texts.filter((it) => it.startsWith(STRAY))
        expect(stray(packets.fenced)).toEqual([])
        const { host, metadata, notInternet } = harness.network
        const places = [host, metadata, ...Object.values(notInternet)]
        expect(stray(packets.unfenced)).toEqual(
          expect.arrayContaining(places.map((address) => `${STRAY} ${address}`)),
        )
      })
    })

    const describeExhaustion = (body: () => void) => {
      if (extent >= PARTS["no-network"]) describe("a sandbox that wants everything", body)
    }
    describeExhaustion(() => {
      let filled: ReadonlyMap<string, Tried>

      beforeAll(async () => {
        filled = await attempt(FILLING_ATTEMPTS, { limits: EXHAUSTION_LIMITS })
      })

      itFails(FILLING_ATTEMPTS, () => filled)

      it(`cannot ${FORK_BOMB.name}`, async () => {
        const bomb = await sandboxes.boot(running(FORK_BOMB.script), { limits: EXHAUSTION_LIMITS })
        try {
          await expectEnd(sandboxes, bomb, FORK_BOMB)
          const { pids } = await harness.backend.stats(bomb)
          expect(pids).toBeLessThanOrEqual(EXHAUSTION_LIMITS.pids)
          const { output } = await sandboxes.run(["/bin/sh", "-c", "echo life goes on"])
          expect(output).toBe("life goes on\n")
        } finally {
          await harness.backend.remove(bomb)
        }
      })

      for (const { name, script } of [MEMORY_BOMB, MEMORY_BY_FILES]) {
        it(`cannot ${name}`, async () => {
          const limits = { ...EXHAUSTION_LIMITS, tmpBytes: 1024 * MIB }
          const { exit } = await sandboxes.run(running(script), { limits })
          expect(exit).toMatchObject({ code: 137, reason: "out-of-memory" })
        })
      }

      it("dies before the server where the whole host is out of memory", async () => {
        const own = Number(await readFile("/proc/self/oom_score_adj", "utf8"))
        const read = ["/bin/sh", "-c", "cat /proc/1/oom_score_adj /proc/self/oom_score_adj"]
        const scores = (await sandboxes.run(read)).output.trim().split("\n").map(Number)
        expect(Math.min(...scores)).toBeGreaterThan(own)
      })

      it(`cannot ${OUTPUT_FLOOD.name}`, async () => {
        const sandbox = await sandboxes.boot(running(OUTPUT_FLOOD.script))
        try {
          expect(await sandboxes.ended(sandbox)).toMatchObject({ code: 0 })
          const kept = await harness.backend.logs(sandbox)
          expect(kept).toContain(AT_THE_END)
          expect(kept.length).toBeLessThan(MOST_LOG_BYTES)
          expect(await largestFile(harness.directory)).toBeLessThan(MOST_LOG_BYTES)
        } finally {
          await harness.backend.remove(sandbox)
        }
      })

      if (differences[COUNTED.name] === undefined) {
        it(`cannot ${COUNTED.name}`, async () => {
          const sandbox = await sandboxes.boot(running(COUNTED.script))
          try {
            await expectEnd(sandboxes, sandbox, COUNTED)
            const probes = running(COUNTED_PROBES)
            const { signal } = new AbortController()
            const [host, other] = await Promise.all([
              runProgram(probes as [string, ...string[]], { signal }).then((it) => it.stdout),
              sandboxes.run(probes).then((it) => it.output),
            ])
            expect({ host, other }).toEqual({
              host: expect.stringMatching(/^(try .*: ok\n){7}$/),
              other: expect.stringMatching(/^(try .*: ok\n){7}$/),
            })
          } finally {
            await harness.backend.remove(sandbox)
          }
        })
      }

      if (differences[COUNTED_BY_NUMBER.name] === undefined) {
        requires("mappedIds").it(`cannot ${COUNTED_BY_NUMBER.name}`, async () => {
          const sandbox = await sandboxes.boot(running(COUNTED_BY_NUMBER.script))
          try {
            await expectEnd(sandboxes, sandbox, COUNTED_BY_NUMBER)
            const { output } = await sandboxes.run(running(NUMBERED_PROBES))
            expect(output).toMatch(/^(try .*: ok\n){2}$/)
          } finally {
            await harness.backend.remove(sandbox)
          }
        })
      }

      if (isWhole) {
        it(`cannot ${CONNECTION_FLOOD.name}`, async () => {
          const { internet, ports, dial, tracked, withoutFence } = harness.network
          const open = { network: { kind: "open" } } as const
          const flood = running(connectionFloodScript(harness.network))
          const flooding = await sandboxes.boot(flood, open)
          try {
            const said = await sandboxes.said(flooding, /^try one more: .+$/m)
            expect(said).toBe(`try one more: ${CONNECTION_FLOOD.sees[0]}\n`)
            // The sandbox's connections are still tracked; the host and another sandbox can open theirs.
            expect(await dial(internet, ports.any)).toContain(" hears ")
            const script = `try_to("internet", sub { dial("${internet}", ${ports.any}) });`
            const { output } = await sandboxes.run(running(script), open)
            expect(output).toBe("try internet: heard\n")
            const held = await tracked()
            expect(held).toBeGreaterThan(1_000)
            // Rules that are made anew count from nothing, so the kernel forgets what they would not count.
            await withoutFence(async () => {})
            expect(await tracked()).toBeLessThan(held / 2)
          } finally {
            await harness.backend.remove(flooding)
          }
        })
      }

      it(`cannot ${OUTLIVING.name}`, async () => {
        const [first, second] = [newToken(), newToken()]
        const { processesWith } = harness
        const stays = await sandboxes.boot(running(`${outlivingScript(first)} sleep 1 while 1;`))
        const ends = await sandboxes.boot(running(outlivingScript(second)))
        try {
          await sandboxes.ended(ends)
          expect(await processesWith(second)).toBe(0)
          await vi.waitFor(async () => expect(await processesWith(first)).toBe(1), POLL)
        } finally {
          await harness.backend.remove(stays)
          await harness.backend.remove(ends)
        }
        expect(await processesWith(first)).toBe(0)
      })
    })

    describe("afterwards", () => {
      it("the host is as it was", async () => {
        expect(await planted.look()).toEqual(before)
      })

      it("the neighbour has all that it had, and was never signalled", async () => {
        if (neighbour === undefined) throw new Error("there is no neighbour")
        await harness.backend.stop(neighbour, { graceMs: GRACE_MS })
        const output = await harness.backend.logs(neighbour)
        const told = [...output.matchAll(/^try (.+): (.+)$/gm)]
        expect(told.length).toBeGreaterThan(0)
        expect(told.filter(([, , how]) => how !== "kept").map(([line]) => line)).toEqual([])
      })
    })
  })

  const describeOnSmallDisk = (title: string, body: () => void) => {
    if (onSmallDisk && isWhole) describe(title, body)
  }
  describeOnSmallDisk(`isolation: ${name}, on a small disk`, () => {
    it(`cannot ${DISK_FILL.name} beyond the disk, and is removed from a full one`, async () => {
      const serverSecret = newSecret("server")
      const harness = await open({ serverSecret, diskBytes: SMALL_DISK_BYTES })
      try {
        const empty = await harness.census()
        const sandboxes = sandboxesOf(harness)
        const { notes } = await harness.backend.describe()
        expect(notes.join("\n")).toContain("fills the disk of the data directory")
        const full = await sandboxes.boot(running(DISK_FILL.script))
        await expectEnd(sandboxes, full, DISK_FILL)
        const another = () => sandboxes.run(["/bin/true"]).catch((failure: unknown) => failure)
        await vi.waitFor(
          async () => expect(await another()).toMatchObject({ code: "backend.disk_full" }),
          POLL,
        )
        expect(await harness.backend.inspect(full)).toMatchObject({ state: "running" })
        await harness.backend.remove(full)
        expect(await harness.census()).toEqual(empty)
        const { output } = await sandboxes.run(["/bin/sh", "-c", "echo life goes on"])
        expect(output).toBe("life goes on\n")
      } finally {
        await harness.close()
      }
    })
  })
}

const running = (script: string) => ["/usr/bin/perl", "-e", `${prelude(process.arch)}${script}`]

const newToken = () => `outlives-${randomBytes(8).toString("hex")}`

/** Requires that every try ended in a way that docs/SECURITY.md tells. */
const expectFailure = (sees: readonly string[], made: Tried | undefined) => {
  if (made === undefined) throw new Error("it was not tried")
  const { tries, said, status } = made
  const unexpected = tries.filter(({ outcome }) => !sees.includes(outcome))
  expect({ unexpected, said, status }).toEqual({ unexpected: [], said: [], status: 0 })
  expect(tries.length).toBeGreaterThan(0)
}

const expectEnd = async (sandboxes: Sandboxes, sandbox: SandboxId, { sees }: Endless) => {
  const said = await sandboxes.said(sandbox, AT_THE_END)
  expect(sees.map((how) => `${AT_THE_END}: ${how}`)).toContain(said.trim())
}

const largestFile = async (directory: string): Promise<number> => {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile())
  const sizes = files.map(async ({ parentPath, name }) => (await stat(join(parentPath, name))).size)
  return Math.max(0, ...(await Promise.all(sizes)))
}
