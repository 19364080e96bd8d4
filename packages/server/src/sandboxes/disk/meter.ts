import type { FreeSpace } from "@berth/host/free-space"
import type { SandboxId } from "@berth/protocol/ids"
import type { SandboxIdentity } from "@berth/protocol/sandbox"
import type { Logger } from "../../logging/logger.ts"
import type { Clock } from "../state/clock.ts"
import { type Allowance, isDue, type Measured } from "./allowance.ts"
import type { Disk, Short, Usage } from "./judge.ts"
import type { UsedBySandbox } from "./remembered.ts"

export type Placed = Pick<SandboxIdentity, "sandbox" | "workspace">

/** A sandbox that has processes, and its disk limit. */
export interface Metered extends Placed {
  readonly allowance: Allowance
}

/** The usage of one sandbox, and how long it took to measure. */
export interface Taken {
  readonly sandbox: SandboxId
  readonly used: FreeSpace
  readonly tookMs: number
}

export interface MeterParts {
  /** Measures with low priority, one sandbox after another. */
  readonly measure: (sandboxes: readonly Placed[], signal: AbortSignal) => AsyncIterable<Taken>
  /** The measurements of an earlier server. */
  readonly remembered: UsedBySandbox
  readonly save: (used: UsedBySandbox) => Promise<void>
  /** Called after each measurement. */
  readonly onMeasured: () => void
  readonly clock: Pick<Clock, "monotonicMs">
  readonly log: Logger
}

/** Knows how much the files of each sandbox take, as of its last measurement. */
export interface Meter {
  /**
   * Measures the sandboxes that are due, one after another, after the call. Forgets those that are not given. The
   * measurements of sandboxes that are halted for filling the disk stay as they are: the next server judges by them.
   */
  look(disk: Disk, sandboxes: readonly Metered[], still: ReadonlySet<SandboxId>): void
  /** Measures a sandbox now. */
  measure(sandbox: Placed, disk: Disk): Promise<void>
  of(sandbox: SandboxId): Measured | undefined
  usage(what: Short): Usage
  /** Takes a measurement that was made for another reason. */
  note(usage: Usage, what: Short, disk: Disk): void
  close(): Promise<void>
}

/** The time and the free room of an earlier server's measurement are not known: all of the room can be gone since. */
const LONG_AGO = {
  free: { bytes: Number.POSITIVE_INFINITY, inodes: Number.POSITIVE_INFINITY },
  atMs: Number.NEGATIVE_INFINITY,
  tookMs: 0,
} as const

export const openMeter = (parts: MeterParts): Meter => {
  const { measure, onMeasured, clock, log } = parts
  const over = new AbortController()
  const last = new Map<SandboxId, Measured>(
    [...parts.remembered].map(([sandbox, used]) => [sandbox, { used, ...LONG_AGO }]),
  )
  let measuring: Promise<void> | undefined

  const measureAll = async (due: readonly Placed[], { free }: Disk): Promise<void> => {
    try {
      for await (const { sandbox, used, tookMs } of measure(due, over.signal)) {
        last.set(sandbox, { used, free, atMs: clock.monotonicMs(), tookMs })
        onMeasured()
      }
      await parts.save(new Map([...last].map(([sandbox, { used }]) => [sandbox, used])))
    } catch (err) {
      if (!over.signal.aborted)
        log.warn(
          { op: "disk.measure", err },
          "The files of sandboxes cannot be measured, or the measurement cannot be saved.",
        )
    }
  }

  return {
    look: (disk, sandboxes, still) => {
      const there = new Set(sandboxes.map(({ sandbox }) => sandbox))
      for (const sandbox of last.keys()) if (!there.has(sandbox)) last.delete(sandbox)
      if (measuring !== undefined) return
      const nowMs = clock.monotonicMs()
      const due = sandboxes.filter(
        ({ sandbox, allowance }) =>
          !still.has(sandbox) && isDue(last.get(sandbox), allowance, disk, nowMs),
      )
      if (due.length === 0) return
      measuring = measureAll(due, disk).finally(() => {
        measuring = undefined
      })
    },
    measure: (sandbox, disk) => measureAll([sandbox], disk),
    of: (sandbox) => last.get(sandbox),
    usage: (what) =>
      new Map(
        [...last].flatMap(([sandbox, { used }]) =>
          used[what] === undefined ? [] : [[sandbox, used[what]] as const],
        ),
      ),
    note: (usage, what, { free }) => {
      const atMs = clock.monotonicMs()
      for (const [sandbox, amount] of usage) {
        const before = last.get(sandbox)
        const used = { ...before?.used, [what]: amount }
        last.set(sandbox, { used, free, atMs, tookMs: before?.tookMs ?? 0 })
      }
    },
    close: async () => {
      over.abort()
      await measuring
    },
  }
}
