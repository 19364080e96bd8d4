import type { SandboxId } from "@berth/protocol/ids"
import type { SandboxIdentity } from "@berth/protocol/sandbox"
import type { FreeSpace } from "../../host/free-space.ts"
import type { Logger } from "../../logging/logger.ts"
import type { Clock } from "../clock.ts"
import { type Allowance, isDue, type Measured } from "./allowance.ts"
import type { Short, Usage } from "./judge.ts"
import type { UsedBySandbox } from "./remembered.ts"

export type Placed = Pick<SandboxIdentity, "sandbox" | "workspace">

/** A sandbox that has processes, and what its files may take. */
export interface Metered extends Placed {
  readonly allowance: Allowance
}

export interface MeterParts {
  /** Takes its time, behind everybody else's work. */
  readonly measure: (sandbox: Placed, signal: AbortSignal) => Promise<FreeSpace>
  /** What an earlier server measured. */
  readonly remembered: UsedBySandbox
  readonly save: (used: UsedBySandbox) => Promise<void>
  /** Called after each measurement. */
  readonly onMeasured: () => void
  readonly clock: Pick<Clock, "monotonicMs">
  readonly log: Logger
}

/** Knows how much the files of each sandbox take, as of its last measurement. */
export interface Meter {
  /** Measures the sandboxes that are due, one after another, after the call. Forgets those that are not given. */
  look(free: FreeSpace, sandboxes: readonly Metered[]): void
  /** Measures a sandbox now. */
  measure(sandbox: Placed, free: FreeSpace): Promise<void>
  of(sandbox: SandboxId): Measured | undefined
  usage(what: Short): Usage
  /** Takes a measurement that was made for another reason. */
  note(usage: Usage, what: Short, free: FreeSpace): void
  close(): Promise<void>
}

/** Of an earlier server's measurement neither the time nor the disk's room is known: all of it can be gone since. */
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

  const measureOne = async (placed: Placed, free: FreeSpace): Promise<void> => {
    const { sandbox } = placed
    const startedMs = clock.monotonicMs()
    try {
      const used = await measure(placed, over.signal)
      const atMs = clock.monotonicMs()
      last.set(sandbox, { used, free, atMs, tookMs: atMs - startedMs })
      onMeasured()
      await parts.save(new Map([...last].map(([id, { used: each }]) => [id, each])))
    } catch (err) {
      if (over.signal.aborted) return
      log.warn(
        { op: "disk.measure", sandbox, err },
        "The sandbox's files cannot be measured, or that is not kept.",
      )
    }
  }
  const measureAll = async (due: readonly Placed[], free: FreeSpace): Promise<void> => {
    for (const placed of due) if (!over.signal.aborted) await measureOne(placed, free)
  }

  return {
    look: (free, sandboxes) => {
      const there = new Set(sandboxes.map(({ sandbox }) => sandbox))
      for (const sandbox of last.keys()) if (!there.has(sandbox)) last.delete(sandbox)
      if (measuring !== undefined) return
      const nowMs = clock.monotonicMs()
      const due = sandboxes.filter(({ sandbox, allowance }) =>
        isDue(last.get(sandbox), allowance, free, nowMs),
      )
      if (due.length === 0) return
      measuring = measureAll(due, free).finally(() => {
        measuring = undefined
      })
    },
    measure: measureOne,
    of: (sandbox) => last.get(sandbox),
    usage: (what) =>
      new Map(
        [...last].flatMap(([sandbox, { used }]) =>
          used[what] === undefined ? [] : [[sandbox, used[what]] as const],
        ),
      ),
    note: (usage, what, free) => {
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
