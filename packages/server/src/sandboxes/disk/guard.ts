import { statfs } from "node:fs/promises"
import type { SandboxId } from "@berth/protocol/ids"
import type { ObservedSandbox } from "../../backends/backend.ts"
import { PIECES, type Reserve } from "../../host/reserve.ts"
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
  /** Looks at a sandbox, and does what there is to do about it. */
  readonly wake: (sandbox: SandboxId) => void
  readonly isThere: (sandbox: SandboxId) => Promise<boolean>
  /** Tells those who use a sandbox. */
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

export const openGuard = (parts: GuardParts): Guard => {
  const { dataDir, rescue, reserve, meter, clock, log, read = readDisk } = parts
  const over = new AbortController()
  const halts: Halts = openHalts()
  const respites = openRespites(clock)
  /** Sandboxes whose files were too many to be counted: each is judged for that once. */
  const uncounted: Record<Short, Map<SandboxId, number>> = { bytes: new Map(), inodes: new Map() }
  /** The room that was left when sandboxes were last judged. */
  let judged: Disk | undefined
  /** Whether halted sandboxes may have to go on. True at first: an earlier server may have halted some. */
  let isToLetGo = true
  let timer: NodeJS.Timeout | undefined
  let looking: Promise<void> | undefined
  let filling: Promise<void> | undefined

  const announce = async (sandbox: SandboxId, reason: string): Promise<void> => {
    log.error({ op: "disk.hold", sandbox }, `The sandbox is halted: ${reason}.`)
    parts.wake(sandbox)
    await parts.tell(sandbox, `it is halted: ${reason}`).catch(() => {})
  }

  /**
   * Finds and halts the sandboxes that fill the disk. All stand still meanwhile: the writer would be done before it is
   * found.
   */
  const judge = async (disk: Disk, what: Short): Promise<void> => {
    // Set first, so that sandboxes go on even if the judgement fails midway.
    isToLetGo = true
    await rescue.halt()
    const there = (await parts.list()).map(({ identity }) => identity)
    const sandboxes = there.filter(({ sandbox }) => !halts.has(sandbox, "disk"))
    const usage = await parts.measure(sandboxes, what, over.signal)
    const before = new Map([...meter.usage(what), ...uncounted[what]])
    const writers = new Set(writersOf(usage, before, disk, what))
    const others = [...usage].filter(([sandbox]) => !writers.has(sandbox))
    meter.note(new Map(others.filter(([, used]) => Number.isFinite(used))), what, disk)
    uncounted[what] = new Map([...usage].filter(([, used]) => !Number.isFinite(used)))
    for (const sandbox of writers) await hold(sandbox, "disk", WORDS[what])
  }

  /**
   * Gives up reserve, so that sandboxes that do not fill the disk can be used: they write little. Half of it stays the
   * server's.
   */
  const giveRoom = async (): Promise<void> => {
    if ((await rescue.isFull()) && reserve.left() > PIECES / 2) reserve.release()
    judged = await read(dataDir)
  }

  /** Resumes all but the held sandboxes and those whose files are being copied: their turn comes after that. */
  const letOthersGo = async (): Promise<void> => {
    const observed = await parts.list()
    const copied = parts.copied()
    if (copied.length > 0) isToLetGo = true
    const running = observed.filter(({ state }) => state === "running")
    const ids = (of: readonly Observed[]) => of.map(({ identity }) => identity.sandbox)
    await rescue.letGo(new Set([...halts.all(), ...copied]), new Set(ids(running)))
    // Decisions that were made while the sandboxes stood still are made again.
    for (const sandbox of ids(observed)) if (!halts.all().has(sandbox)) parts.wake(sandbox)
  }

  /** Resumes the sandboxes that filled the disk, if it has room; if not, ends the respites whose time is over. */
  const holdWriters = async (disk: Disk): Promise<void> => {
    const ended = respites.over()
    if (hasRoom(disk)) {
      judged = undefined
      for (const counts of Object.values(uncounted)) counts.clear()
      for (const sandbox of halts.of("disk")) release(sandbox, "disk", "the disk has room again")
      return
    }
    judged &&= roomier(judged, disk)
    for (const [sandbox, reason] of ended) await hold(sandbox, "disk", reason)
  }

  const hold = async (sandbox: SandboxId, cause: Cause, reason: string): Promise<void> => {
    respites.end(sandbox)
    halts.put(sandbox, cause, reason)
    await rescue.hold(sandbox)
    await announce(sandbox, reason)
  }

  const release = (sandbox: SandboxId, cause: Cause, why: string): void => {
    if (!halts.drop(sandbox, cause)) return
    log.warn({ op: "disk.release", sandbox }, `The sandbox goes on: ${why}.`)
    isToLetGo = true
  }

  /** Halts the sandboxes that are over their limit, as far as that is known, and has the others measured. */
  const holdLimits = async (disk: Disk): Promise<number> => {
    const sandboxes = await parts.bounded()
    meter.look(disk, sandboxes, new Set(halts.of("disk")))
    for (const { sandbox, allowance } of sandboxes) await holdLimit(sandbox, allowance)
    const times = sandboxes.map((each) => untilFullMs(meter.of(each.sandbox), each.allowance))
    return Math.min(...times, Number.POSITIVE_INFINITY)
  }

  const holdLimit = async (sandbox: SandboxId, allowance: Allowance): Promise<void> => {
    const measured = meter.of(sandbox)
    if (measured === undefined) return
    const reason = excessOf(measured, respites.widen(sandbox, allowance))
    if (excessOf(measured, allowance) === undefined) respites.endOfLimit(sandbox)
    if (reason === undefined)
      return release(sandbox, "limit", "its files take no more than they may")
    // A later measurement may give another number, and so another reason.
    if (halts.has(sandbox, "limit")) halts.put(sandbox, "limit", reason)
    else await hold(sandbox, "limit", reason)
  }

  const look = async (): Promise<{ readonly disk: Disk; readonly againInMs: number }> => {
    const disk = await read(dataDir)
    const what = shortOf(disk)
    const wasHalted = rescue.isHalted
    for (const sandbox of halts.all()) if (!(await parts.isThere(sandbox))) halts.forget(sandbox)
    let againInMs = nextLookMs(disk)
    try {
      if (what !== undefined && (wasHalted || isWorse(disk, judged, what))) {
        await judge(disk, what)
        await giveRoom()
      }
      await holdWriters(disk)
      againInMs = Math.min(againInMs, await holdLimits(disk))
      // An engine, or the copier of its files, may have resumed a held sandbox.
      for (const sandbox of halts.all()) await rescue.hold(sandbox)
    } finally {
      const isLettingGo = rescue.isHalted || isToLetGo
      isToLetGo = false
      if (isLettingGo) await letOthersGo()
    }
    return { disk, againInMs }
  }

  const failed = (err: unknown): undefined => {
    if (!over.signal.aborted)
      log.warn({ op: "disk.look", err }, "The free space of the disk cannot be read; trying again.")
  }
  const lookOn = async (): Promise<void> => {
    const looked = await look().catch(failed)
    looking = undefined
    if (over.signal.aborted) return
    // Filling the reserve is not awaited: it writes to the disk, and a starting server has other things to do.
    if (looked !== undefined && hasRoom(looked.disk)) filling = reserve.fill().catch(failed)
    timer = setTimeout(startAgain, looked?.againInMs ?? RETRY_MS).unref()
  }
  const start = (): Promise<void> => {
    clearTimeout(timer)
    if (over.signal.aborted) return Promise.resolve()
    looking ??= lookOn()
    return looking
  }
  const startAgain = () => void start()

  return {
    held: (sandbox) => halts.why(sandbox),
    why: (sandbox) => halts.why(sandbox) ?? (rescue.isHalted ? UNJUDGED : undefined),
    get isHolding() {
      return halts.all().size > 0
    },
    relent: async (placed) => {
      const { sandbox } = placed
      await looking
      if (halts.why(sandbox) === undefined) return
      const disk = await read(dataDir)
      // The sandbox may have written more before it stood still.
      await meter.measure(placed, disk)
      const diskReason = halts.of("disk").includes(sandbox) ? halts.why(sandbox) : undefined
      respites.begin(sandbox, { used: meter.of(sandbox)?.used ?? {}, diskReason })
      halts.forget(sandbox)
      for (const counts of Object.values(uncounted)) counts.delete(sandbox)
      // Growth from here on is noticed at the next look.
      judged = disk
      await rescue.clear(sandbox)
      log.warn({ op: "disk.relent", sandbox }, "A person lets the sandbox go on, to make room.")
      parts.wake(sandbox)
    },
    watch: () => {
      rescue.onHalt = startAgain
      return start()
    },
    look: async () => {
      await looking
      await start()
    },
    close: async () => {
      over.abort()
      rescue.onHalt = () => {}
      clearTimeout(timer)
      await meter.close()
      await looking
      await filling
    },
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
