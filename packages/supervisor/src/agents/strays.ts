import { readFileSync } from "node:fs"
import type { Clock } from "../processes/clock.ts"
import { endTree } from "../processes/tree/end.ts"
import type { ProcessEntry } from "../processes/tree/proc.ts"
import { type ProcessTree, signalProcess } from "../processes/tree/tree.ts"

/** Time from SIGTERM to SIGKILL. It is short, as little of the second that a stop may take is left. */
const END_GRACE_MS = 100
/** Ticks per second of the kernel's clock, in the unit of /proc. */
const TICKS_PER_SECOND = 100

/**
 * Ends processes that a prompt's tools left behind and the agent does not end: those that left their group, and whose
 * parents have ended. A prompt's processes are recognized by their start time alone, so nothing is ended if prompts of
 * other sessions ran at the same time.
 */
export class Strays {
  readonly #clock: Clock
  readonly #running = new Set<Since>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Called when a prompt begins. */
  begin(): Since {
    const since: Since = { ticks: ticksNow(), isAlone: this.#running.size === 0 }
    for (const other of this.#running) other.isAlone = false
    this.#running.add(since)
    return since
  }

  over(since: Since): void {
    this.#running.delete(since)
  }

  /** Ends the strays of a prompt that was stopped. */
  async end(tree: ProcessTree | undefined, { ticks, isAlone }: Since): Promise<void> {
    if (tree === undefined || !isAlone) return
    const find = async () => {
      const members = await tree.find()
      return straysIn(members, tree.root.pid).filter(({ startTicks }) => startTicks >= ticks)
    }
    const signal = (entries: readonly ProcessEntry[], name: NodeJS.Signals) => {
      for (const entry of entries) signalProcess(entry, name)
    }
    await endTree({ find, signal }, { clock: this.#clock, graceMs: END_GRACE_MS })
  }
}

export interface Since {
  readonly ticks: number
  isAlone: boolean
}

/** The members that do not descend from the root. */
const straysIn = (members: readonly ProcessEntry[], rootPid: number): ProcessEntry[] => {
  const byPid = new Map(members.map((entry) => [entry.pid, entry]))
  const hangs = (entry: ProcessEntry): boolean => {
    for (let at: ProcessEntry | undefined = entry; at; at = byPid.get(at.parentPid))
      if (at.pid === rootPid) return true
    return false
  }
  return members.filter((entry) => !hangs(entry))
}

/** Ticks since the machine's start, the unit of a process's start time. */
const ticksNow = (): number =>
  Math.floor(Number.parseFloat(readFileSync("/proc/uptime", "latin1")) * TICKS_PER_SECOND)
