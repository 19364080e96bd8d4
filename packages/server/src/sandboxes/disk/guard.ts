import { statfs } from "node:fs/promises"
import type { ObservedSandbox } from "@berth/backends/backend"
import { PIECES, type Reserve } from "@berth/host/reserve"
import type { SandboxId } from "@berth/protocol/ids"
import type { Logger } from "../../logging/logger.ts"
import type { Clock } from "../state/clock.ts"
import { type Allowance, excessOf, untilFullMs } from "./allowance.ts"
import { type Cause, type Halts, openHalts } from "./halts.ts"
import {
  type Disk,
  hasRoom,
  nextLookMs,
  type Short,
  shortOf,
  type Usage,
  writersOf,
} from "./judge.ts"
import type { Meter, Metered, Placed } from "./meter.ts"
import type { Rescue } from "./rescue.ts"
import { openRespites } from "./respites.ts"

type Observed = Pick<ObservedSandbox, "identity" | "state">

export interface GuardParts {
  readonly dataDir: string
  readonly rescue: Rescue
  readonly reserve: Reserve
  readonly meter: Meter
  readonly clock: Pick<Clock, "monotonicMs">
  /** The sandboxes that have processes. */
  readonly list: () => Promise<readonly Observed[]>
  /** The sandboxes that stand still while their files are copied. */
  readonly copied: () => readonly SandboxId[]
  /** The sandboxes that the store knows, with their disk limits. */
  readonly bounded: () => Promise<readonly Metered[]>
  readonly measure: (
    sandboxes: readonly Placed[],
    what: Short,
    signal: AbortSignal,
  ) => Promise<Usage>
  /** Has the sandbox's worker look at it. */
  readonly wake: (sandbox: SandboxId) => void
  readonly isThere: (sandbox: SandboxId) => Promise<boolean>
  /** Tells the users of a sandbox. */
  readonly tell: (sandbox: SandboxId, message: string) => Promise<void>
  readonly log: Logger
  readonly read?: (dataDir: string) => Promise<Disk>
}

/** Halts the sandboxes that fill the disk, before it is full, and those that are over their disk limit. */
export interface Guard {
  /** Why a sandbox is halted, if it is, be it for a moment. */
  why(sandbox: SandboxId): string | undefined
  /** Why a sandbox stays halted until there is room, if it does. */
  held(sandbox: SandboxId): string | undefined
  /**
   * Lets a halted sandbox go on for a while, so that a person can make room in it. All its processes but the supervisor
   * are ended: one of them filled the disk. A sandbox that is not halted is left alone.
   */
  relent(sandbox: Placed): Promise<void>
  /** Whether any sandbox stays halted. */
  readonly isHolding: boolean
  /** Looks at the disk again and again from now on. Resolves after the first look. */
  watch(): Promise<void>
  /** Looks now: there is a new measurement, or a limit has changed. */
  look(): Promise<void>
  close(): Promise<void>
}

const WORDS: Readonly<Record<Short, string>> = {
  bytes: "the disk is nearly full, and this sandbox fills it",
  inodes: "the disk has room for few more files, and this sandbox makes them",
}
const UNJUDGED = "the disk is full, and it is not known yet who fills it"

/** Sandboxes are judged again only when this part of the free room of the last judgement is left. */
const WORSE = 0.75

export const openGuard = (parts: GuardParts): Guard => new DiskGuard(parts)

class DiskGuard implements Guard {
  readonly #parts: GuardParts
  readonly #read: (dataDir: string) => Promise<Disk>
  readonly #over = new AbortController()
  readonly #halts: Halts = openHalts()
  readonly #respites: ReturnType<typeof openRespites>
  /** Sandboxes whose files were too many to be counted: each is judged for that once. */
  readonly #uncounted: Record<Short, Map<SandboxId, number>> = {
    bytes: new Map(),
    inodes: new Map(),
  }
  /** The room that was left when sandboxes were last judged. */
  #judged: Disk | undefined
  /** Whether halted sandboxes may have to go on. True at first: an earlier server may have halted some. */
  #isToLetGo = true
  #timer: NodeJS.Timeout | undefined
  #looking: Promise<void> | undefined
  #filling: Promise<void> | undefined

  constructor(parts: GuardParts) {
    this.#parts = parts
    this.#read = parts.read ?? readDisk
    this.#respites = openRespites(parts.clock)
  }

  why(sandbox: SandboxId): string | undefined {
    return this.#halts.why(sandbox) ?? (this.#parts.rescue.isHalted ? UNJUDGED : undefined)
  }

  held(sandbox: SandboxId): string | undefined {
    return this.#halts.why(sandbox)
  }

  get isHolding(): boolean {
    return this.#halts.all().size > 0
  }

  async relent(placed: Placed): Promise<void> {
    const { meter, rescue, dataDir, log, wake } = this.#parts
    const { sandbox } = placed
    await this.#looking
    const why = this.#halts.why(sandbox)
    if (why === undefined) return
    const disk = await this.#read(dataDir)
    // The sandbox may have written more before it stood still.
    await meter.measure(placed, disk)
    const diskReason = this.#halts.of("disk").includes(sandbox) ? why : undefined
    this.#respites.begin(sandbox, { used: meter.of(sandbox)?.used ?? {}, diskReason })
    this.#halts.forget(sandbox)
    for (const counts of Object.values(this.#uncounted)) counts.delete(sandbox)
    // Growth from here on is noticed at the next look.
    this.#judged = disk
    await rescue.clear(sandbox)
    log.warn({ op: "disk.relent", sandbox }, "A person lets the sandbox go on, to make room.")
    wake(sandbox)
  }

  watch(): Promise<void> {
    this.#parts.rescue.onHalt = () => void this.#start()
    return this.#start()
  }

  async look(): Promise<void> {
    await this.#looking
    await this.#start()
  }

  async close(): Promise<void> {
    this.#over.abort()
    this.#parts.rescue.onHalt = () => {}
    clearTimeout(this.#timer)
    await this.#parts.meter.close()
    await this.#looking
    await this.#filling
  }

  #start(): Promise<void> {
    clearTimeout(this.#timer)
    if (this.#over.signal.aborted) return Promise.resolve()
    this.#looking ??= this.#lookOn()
    return this.#looking
  }

  async #lookOn(): Promise<void> {
    const looked = await this.#look().catch(this.#failed)
    this.#looking = undefined
    if (this.#over.signal.aborted) return
    // Filling the reserve is not awaited: it writes to the disk, and a starting server has other things to do.
    if (looked !== undefined && hasRoom(looked.disk))
      this.#filling = this.#parts.reserve.fill().catch(this.#failed)
    const againInMs = looked?.againInMs ?? RETRY_MS
    this.#timer = setTimeout(() => void this.#start(), againInMs).unref()
  }

  readonly #failed = (err: unknown): undefined => {
    if (this.#over.signal.aborted) return
    this.#parts.log.warn(
      { op: "disk.look", err },
      "The free space of the disk cannot be read; trying again.",
    )
  }

  async #look(): Promise<{ readonly disk: Disk; readonly againInMs: number }> {
    const { rescue, dataDir, isThere } = this.#parts
    const halts = this.#halts
    const disk = await this.#read(dataDir)
    const what = shortOf(disk)
    const wasHalted = rescue.isHalted
    for (const sandbox of halts.all()) if (!(await isThere(sandbox))) halts.forget(sandbox)
    let againInMs = nextLookMs(disk)
    try {
      if (what !== undefined && (wasHalted || isWorse(disk, this.#judged, what))) {
        await this.#judge(disk, what)
        await this.#giveRoom()
      }
      await this.#holdWriters(disk)
      againInMs = Math.min(againInMs, await this.#holdLimits(disk))
      // An engine, or the copier of its files, may have resumed a held sandbox.
      for (const sandbox of halts.all()) await rescue.hold(sandbox)
    } finally {
      const isLettingGo = rescue.isHalted || this.#isToLetGo
      this.#isToLetGo = false
      if (isLettingGo) await this.#letOthersGo()
    }
    return { disk, againInMs }
  }

  /**
   * Finds and halts the sandboxes that fill the disk. All stand still meanwhile: the writer would be done before it is
   * found.
   */
  async #judge(disk: Disk, what: Short): Promise<void> {
    const { rescue, list, measure, meter } = this.#parts
    // Set first, so that sandboxes go on even if the judgement fails midway.
    this.#isToLetGo = true
    await rescue.halt()
    const there = (await list()).map(({ identity }) => identity)
    const sandboxes = there.filter(({ sandbox }) => !this.#halts.has(sandbox, "disk"))
    const usage = await measure(sandboxes, what, this.#over.signal)
    const before = new Map([...meter.usage(what), ...this.#uncounted[what]])
    const writers = new Set(writersOf(usage, before, disk, what))
    const others = [...usage].filter(([sandbox]) => !writers.has(sandbox))
    meter.note(new Map(others.filter(([, used]) => Number.isFinite(used))), what, disk)
    this.#uncounted[what] = new Map([...usage].filter(([, used]) => !Number.isFinite(used)))
    for (const sandbox of writers) await this.#hold(sandbox, "disk", WORDS[what])
  }

  /**
   * Gives up reserve, so that sandboxes that do not fill the disk can be used: they write little. Half of it stays the
   * server's.
   */
  async #giveRoom(): Promise<void> {
    const { rescue, reserve, dataDir } = this.#parts
    if ((await rescue.isFull()) && reserve.left() > PIECES / 2) reserve.release()
    this.#judged = await this.#read(dataDir)
  }

  /** Resumes all but the held sandboxes and those whose files are being copied: their turn comes after that. */
  async #letOthersGo(): Promise<void> {
    const { list, rescue, wake } = this.#parts
    const observed = await list()
    const copied = this.#parts.copied()
    if (copied.length > 0) this.#isToLetGo = true
    const running = observed.filter(({ state }) => state === "running")
    const ids = (of: readonly Observed[]) => of.map(({ identity }) => identity.sandbox)
    await rescue.resume(new Set([...this.#halts.all(), ...copied]), new Set(ids(running)))
    // Decisions that were made while the sandboxes stood still are made again.
    for (const sandbox of ids(observed)) if (!this.#halts.all().has(sandbox)) wake(sandbox)
  }

  /** Resumes the sandboxes that filled the disk, if it has room; if not, ends the respites whose time is over. */
  async #holdWriters(disk: Disk): Promise<void> {
    const ended = this.#respites.over()
    if (hasRoom(disk)) {
      this.#judged = undefined
      for (const counts of Object.values(this.#uncounted)) counts.clear()
      for (const sandbox of this.#halts.of("disk"))
        this.#release(sandbox, "disk", "the disk has room again")
      return
    }
    this.#judged &&= roomier(this.#judged, disk)
    for (const [sandbox, reason] of ended) await this.#hold(sandbox, "disk", reason)
  }

  /** Halts the sandboxes that are over their limit, as far as that is known, and has the others measured. */
  async #holdLimits(disk: Disk): Promise<number> {
    const { bounded, meter } = this.#parts
    const sandboxes = await bounded()
    meter.look(disk, sandboxes, new Set(this.#halts.of("disk")))
    for (const { sandbox, allowance } of sandboxes) await this.#holdLimit(sandbox, allowance)
    const times = sandboxes.map((each) => untilFullMs(meter.of(each.sandbox), each.allowance))
    return Math.min(...times, Number.POSITIVE_INFINITY)
  }

  async #holdLimit(sandbox: SandboxId, allowance: Allowance): Promise<void> {
    const measured = this.#parts.meter.of(sandbox)
    if (measured === undefined) return
    const reason = excessOf(measured, this.#respites.widen(sandbox, allowance))
    if (excessOf(measured, allowance) === undefined) this.#respites.endOfLimit(sandbox)
    if (reason === undefined)
      return this.#release(sandbox, "limit", "its files take no more than they may")
    // A later measurement may give another number, and so another reason.
    if (this.#halts.has(sandbox, "limit")) this.#halts.put(sandbox, "limit", reason)
    else await this.#hold(sandbox, "limit", reason)
  }

  async #hold(sandbox: SandboxId, cause: Cause, reason: string): Promise<void> {
    const { rescue, log, wake, tell } = this.#parts
    this.#respites.end(sandbox)
    this.#halts.put(sandbox, cause, reason)
    await rescue.hold(sandbox)
    log.error({ op: "disk.hold", sandbox }, `The sandbox is halted: ${reason}.`)
    wake(sandbox)
    await tell(sandbox, `it is halted: ${reason}`).catch(() => {})
  }

  #release(sandbox: SandboxId, cause: Cause, why: string): void {
    if (!this.#halts.drop(sandbox, cause)) return
    this.#parts.log.warn({ op: "disk.release", sandbox }, `The sandbox goes on: ${why}.`)
    this.#isToLetGo = true
  }
}

/** The guard where nobody watches the disk. */
export const NO_GUARD: Guard = {
  why: () => undefined,
  held: () => undefined,
  relent: async () => {},
  isHolding: false,
  watch: async () => {},
  look: async () => {},
  close: async () => {},
}

const RETRY_MS = 1_000

const isWorse = (disk: Disk, judged: Disk | undefined, what: Short): boolean =>
  judged === undefined || disk.free[what] < WORSE * judged.free[what]

const roomier = (one: Disk, other: Disk): Disk => ({
  free: {
    bytes: Math.max(one.free.bytes, other.free.bytes),
    inodes: Math.max(one.free.inodes, other.free.inodes),
  },
  size: other.size,
})

const readDisk = async (dataDir: string): Promise<Disk> => {
  const { bavail, blocks, bsize, files, ffree } = await statfs(dataDir)
  // File systems that make inodes on demand report a total of zero.
  const [inodes, all] = files === 0 ? [Number.POSITIVE_INFINITY, 0] : [ffree, files]
  return {
    free: { bytes: bavail * bsize, inodes },
    size: { bytes: blocks * bsize, inodes: all },
  }
}
