import type { SandboxId } from "@berth/protocol/ids"
import { expect } from "vitest"
import type { Attempt, Differences, Given } from "../attempt.ts"
import { CLOSED_ATTEMPTS } from "../attempts.ts"
import { NEIGHBOUR_READY, neighbourScript } from "../escapes/neighbour.ts"
import { KNOCKING, LISTED, listedIn, OPEN_ATTEMPTS } from "../escapes/network.ts"
import { readTried, running, type Tried, tryingCommand } from "../inside.ts"
import { newSecret, type Planted, plant } from "../planted.ts"
import { type ConfigInput, type Sandboxes, sandboxesOf } from "../sandboxes.ts"
import type { IsolationHarness, IsolationOptions } from "./harness.ts"

/** Longer than any grace that a well-behaved process needs here. */
export const GRACE_MS = 5_000

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

export const UNHARDENED_ATTEMPTS = [...CLOSED_ATTEMPTS, ...OPEN_ATTEMPTS].filter(
  ({ succeedsUnhardened }) => succeedsUnhardened,
)

/** Leaves out attempts that need the kernel of another architecture. */
export const onThisMachine = (attempts: readonly Attempt[]) =>
  attempts.filter(({ onlyOn }) => onlyOn === undefined || onlyOn === process.arch)

/** The sandboxes that make attempts. `unfenced` makes its own while the host has no rules. */
export type Attempter = "closed" | "unhardened" | "connected" | "listed" | "unfenced" | "filling"

/** The packets that arrived at any listener, with the rules of the host and without. */
interface Packets {
  readonly fenced: readonly string[]
  readonly unfenced: readonly string[]
}

interface Opened {
  readonly harness: IsolationHarness
  readonly sandboxes: Sandboxes
  readonly planted: Planted
  /** The census before any sandbox. */
  readonly empty: Record<string, number>
}

interface TestbedOptions {
  readonly open: (options: IsolationOptions) => Promise<IsolationHarness>
  readonly differences: Differences
  /** Whether the attempts over the network are made. */
  readonly isWhole: boolean
}

/** The host under test with its neighbour, and what came of the attempts. */
export class IsolationTestbed {
  readonly differences: Differences
  readonly isWhole: boolean
  readonly #open: TestbedOptions["open"]
  #harness: IsolationHarness | undefined
  #opened: Opened | undefined
  #before: Record<string, unknown> = {}
  #neighbour: SandboxId | undefined
  #given: Given | undefined
  readonly #outcomes = new Map<Attempter, ReadonlyMap<string, Tried>>()
  #packets: Packets = { fenced: [], unfenced: [] }

  constructor({ open, differences, isWhole }: TestbedOptions) {
    this.#open = open
    this.differences = differences
    this.isWhole = isWhole
  }

  get harness(): IsolationHarness {
    return this.#needOpened().harness
  }

  get sandboxes(): Sandboxes {
    return this.#needOpened().sandboxes
  }

  get planted(): Planted {
    return this.#needOpened().planted
  }

  /** The host as it was before any sandbox. */
  get before(): Record<string, unknown> {
    return this.#before
  }

  get neighbour(): SandboxId {
    if (this.#neighbour === undefined) throw new Error("there is no neighbour")
    return this.#neighbour
  }

  get packets(): Packets {
    return this.#packets
  }

  /** The outcome of one attempt; undefined if it was not made. */
  outcome(attempter: Attempter, name: string): Tried | undefined {
    return this.#outcomes.get(attempter)?.get(name)
  }

  /** Opens the host, boots the neighbour, and makes all attempts that end by themselves. */
  async open(): Promise<void> {
    const harness = await this.#open({ serverSecret: newSecret("server") })
    this.#harness = harness
    const empty = await harness.census()
    const planted = await plant(harness.directory)
    this.#opened = { harness, sandboxes: sandboxesOf(harness), planted, empty }
    this.#before = await planted.look()
    const address = await this.#bootNeighbour()
    const { network, serverSockets } = harness
    const given = { ...planted, serverSockets, network: { ...network, neighbour: address } }
    this.#given = given
    await Promise.all([
      this.attempt("closed", CLOSED_ATTEMPTS, { mounts: planted.mounts }),
      this.attempt("unhardened", UNHARDENED_ATTEMPTS, { hardening: UNHARDENED }),
    ])
    if (!this.isWhole) return
    // Includes the host and the neighbour, which no list opens.
    const allow = [listedIn(given.network), network.host, address].map((it) => `${it}/32`)
    await Promise.all([
      this.attempt("connected", OPEN_ATTEMPTS, { network: { kind: "open" } }),
      this.attempt("listed", [LISTED], { network: { kind: "open", allow } }),
    ])
    const fenced = await network.packetsUntil("last")
    await this.#attemptUnfenced()
    this.#packets = { fenced, unfenced: await network.packetsUntil("last") }
  }

  async close(): Promise<void> {
    if (this.#neighbour !== undefined) await this.harness.backend.remove(this.#neighbour)
    const left = await this.#harness?.census()
    await this.#opened?.planted.remove()
    await this.#harness?.close()
    expect(left).toEqual(this.#opened?.empty)
  }

  /** Makes attempts in a sandbox of their own, and notes their outcomes. */
  async attempt(
    attempter: Attempter,
    attempts: readonly Attempt[],
    config: ConfigInput,
  ): Promise<void> {
    const command = tryingCommand(onThisMachine(attempts), this.#needGiven(), process.arch)
    const { output } = await this.sandboxes.run(command, config)
    this.#outcomes.set(attempter, readTried(output))
  }

  /** The sandbox is made while the rules stand and waits for their end, since making one restores them. */
  async #attemptUnfenced(): Promise<void> {
    const { backend, network } = this.harness
    const attempts = [KNOCKING, ...OPEN_ATTEMPTS]
    const command = tryingCommand(attempts, this.#needGiven(), process.arch)
    const sandbox = await this.sandboxes.boot(command, { network: { kind: "open" } })
    try {
      await network.withoutFence(() => this.sandboxes.ended(sandbox))
      this.#outcomes.set("unfenced", readTried(await backend.logs(sandbox)))
    } finally {
      await backend.remove(sandbox)
    }
  }

  /** Boots the sandbox beside which the others make their attempts. Returns its address. */
  async #bootNeighbour(): Promise<string> {
    const { ports, internet } = this.harness.network
    this.#neighbour = await this.sandboxes.boot(running(neighbourScript(ports.any, internet)), {
      network: { kind: "open" },
      environment: { NEIGHBOUR_SECRET: newSecret("neighbour") },
    })
    const said = await this.sandboxes.said(this.#neighbour, NEIGHBOUR_READY)
    return NEIGHBOUR_READY.exec(said)?.[1] ?? ""
  }

  #needOpened(): Opened {
    if (this.#opened === undefined) throw new Error("the host is not open")
    return this.#opened
  }

  #needGiven(): Given {
    if (this.#given === undefined) throw new Error("there is no neighbour yet")
    return this.#given
  }
}
