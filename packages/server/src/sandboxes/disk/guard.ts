import { statfs } from "node:fs/promises"
import type { SandboxId } from "@berth/protocol/ids"
import type { ObservedSandbox } from "../../backends/backend.ts"
import { PIECES, type Reserve } from "../../host/reserve.ts"
import type { Logger } from "../../logging/logger.ts"
import {
  type Disk,
  hasRoom,
  nextLookMs,
  type Short,
  shortOf,
  type Usage,
  writersOf,
} from "./judge.ts"
import type { Rescue } from "./rescue.ts"

type Observed = Pick<ObservedSandbox, "identity" | "state">

export interface GuardParts {
  readonly dataDir: string
  readonly rescue: Rescue
  readonly reserve: Reserve
  /** The sandboxes that have processes. */
  readonly list: () => Promise<readonly Observed[]>
  readonly measure: (
    sandboxes: readonly Observed["identity"][],
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

/** Halts the sandboxes that fill the disk, before it is full. */
export interface Guard {
  /** Why a sandbox is halted, if it is, be it for a moment. */
  why(sandbox: SandboxId): string | undefined
  /** Why it stays halted, if it does: until there is room. */
  held(sandbox: SandboxId): string | undefined
  /** From now on, again and again. Resolves after the first look. */
  watch(): Promise<void>
  close(): Promise<void>
}

const WORDS: Readonly<Record<Short, string>> = {
  bytes: "the disk is nearly full, and this sandbox fills it",
  inodes: "the disk has room for few more files, and this sandbox makes them",
}
const UNJUDGED = "the disk is full, and it is not known yet who fills it"

/** Nobody is judged again before this part of what was left is gone. */
const WORSE = 0.75

export const openGuard = (parts: GuardParts): Guard => {
  const { dataDir, rescue, reserve, log, read = readDisk } = parts
  const over = new AbortController()
  const held = new Map<SandboxId, string>()
  const before: Record<Short, Usage> = { bytes: new Map(), inodes: new Map() }
  /** The room that was left when sandboxes were last judged. */
  let judged: Disk | undefined
  /** An earlier server may have halted some. */
  let isFirst = true
  let timer: NodeJS.Timeout | undefined
  let looking: Promise<void> | undefined
  let filling: Promise<void> | undefined

  /** All stand still meanwhile: whoever fills the disk would be done before it is found. */
  const judge = async (disk: Disk, what: Short): Promise<void> => {
    await rescue.halt()
    const sandboxes = (await parts.list()).map(({ identity }) => identity)
    const usage = await parts.measure(sandboxes, what, over.signal)
    const writers = writersOf(usage, before[what], disk, what)
    before[what] = usage
    for (const sandbox of writers.filter((each) => !held.has(each))) {
      held.set(sandbox, WORDS[what])
      log.error({ op: "disk.hold", sandbox }, `The sandbox is halted: ${WORDS[what]}.`)
      parts.wake(sandbox)
      await parts.tell(sandbox, `it is halted: ${WORDS[what]}`).catch(() => {})
    }
  }

  /** Sandboxes that do not fill the disk can be used: little is written for that. The server keeps its half. */
  const giveRoom = async (): Promise<void> => {
    if ((await rescue.isFull()) && reserve.left() > PIECES / 2) reserve.release()
    judged = await read(dataDir)
  }

  /** Held sandboxes stay as they are. */
  const letOthersGo = async (): Promise<void> => {
    const observed = await parts.list()
    const running = observed.filter(({ state }) => state === "running")
    const ids = (of: readonly Observed[]) => of.map(({ identity }) => identity.sandbox)
    await rescue.letGo(new Set(held.keys()), new Set(ids(running)))
    // Decisions that were taken while they stood still are taken anew.
    for (const sandbox of ids(observed)) if (!held.has(sandbox)) parts.wake(sandbox)
  }

  const look = async (): Promise<Disk> => {
    const disk = await read(dataDir)
    const what = shortOf(disk)
    const wasHalted = rescue.isHalted
    for (const sandbox of held.keys()) if (!(await parts.isThere(sandbox))) held.delete(sandbox)
    try {
      if (what !== undefined && (wasHalted || isWorse(disk, judged, what))) {
        await judge(disk, what)
        await giveRoom()
      }
      if (hasRoom(disk)) {
        judged = undefined
        for (const sandbox of held.keys())
          log.warn({ op: "disk.release", sandbox }, "The sandbox goes on: the disk has room again.")
        isFirst ||= held.size > 0
        held.clear()
      }
    } finally {
      if (rescue.isHalted || isFirst) await letOthersGo()
      isFirst = false
    }
    return disk
  }

  const failed = (err: unknown): undefined => {
    if (!over.signal.aborted)
      log.warn({ op: "disk.look", err }, "The disk cannot be looked at; trying again.")
  }
  const lookOn = async (): Promise<void> => {
    const disk = await look().catch(failed)
    looking = undefined
    if (over.signal.aborted) return
    // Nobody waits for that: it writes to the disk, and a server that starts has other things to do.
    if (disk !== undefined && hasRoom(disk)) filling = reserve.fill().catch(failed)
    timer = setTimeout(startAgain, disk === undefined ? RETRY_MS : nextLookMs(disk)).unref()
  }
  const start = (): Promise<void> => {
    clearTimeout(timer)
    looking ??= lookOn()
    return looking
  }
  const startAgain = () => void start()

  return {
    held: (sandbox) => held.get(sandbox),
    why: (sandbox) => held.get(sandbox) ?? (rescue.isHalted ? UNJUDGED : undefined),
    watch: () => {
      rescue.onHalt = startAgain
      return start()
    },
    close: async () => {
      over.abort()
      rescue.onHalt = () => {}
      clearTimeout(timer)
      await looking
      await filling
    },
  }
}

/** Where nobody watches the disk. */
export const NO_GUARD: Guard = {
  why: () => undefined,
  held: () => undefined,
  watch: async () => {},
  close: async () => {},
}

const RETRY_MS = 1_000

const isWorse = (disk: Disk, judged: Disk | undefined, what: Short): boolean =>
  judged === undefined || disk.free[what] < WORSE * judged.free[what]

const readDisk = async (dataDir: string): Promise<Disk> => {
  const { bavail, blocks, bsize, files, ffree } = await statfs(dataDir)
  // File systems that make inodes on demand tell a total of zero.
  const [inodes, all] = files === 0 ? [Number.POSITIVE_INFINITY, 0] : [ffree, files]
  return {
    free: { bytes: bavail * bsize, inodes },
    size: { bytes: blocks * bsize, inodes: all },
  }
}
