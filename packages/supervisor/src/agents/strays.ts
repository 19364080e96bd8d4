import { readFileSync } from "node:fs"
import type { Clock } from "../processes/clock.ts"
import { endTree } from "../processes/tree/end.ts"
import type { ProcessEntry } from "../processes/tree/proc.ts"
import { type ProcessTree, signalProcess } from "../processes/tree/tree.ts"

/** From SIGTERM to SIGKILL: what is left of the second that a stop may take is short. */
const END_GRACE_MS = 100
/** Of the kernel's clock, as it shows it to programs. */
const TICKS_PER_SECOND = 100

/**
 * What tools left running that their agent does not end with them: processes that left their group, and whose
 * parents have ended. Those of one prompt are told by when they started, so they are left alone where prompts of
 * other sessions ran beside it.
 */
export class Strays {
  readonly #clock: Clock
  readonly #running = new Set<Since>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** With the beginning of a prompt. */
  begin(): Since {
    const since: Since = { ticks: ticksNow(), isAlone: this.#running.size === 0 }
    for (const other of this.#running) other.isAlone = false
    this.#running.add(since)
    return since
  }

  over(since: Since): void {
    this.#running.delete(since)
  }

  /** When it was stopped. */
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

/** Those that do not hang below the root. */
const straysIn = (members: readonly ProcessEntry[], rootPid: number): ProcessEntry[] => {
  const byPid = new Map(members.map((entry) => [entry.pid, entry]))
  const hangs = (entry: ProcessEntry): boolean => {
    for (let at: ProcessEntry | undefined = entry; at; at = byPid.get(at.parentPid))
      if (at.pid === rootPid) return true
    return false
  }
  return members.filter((entry) => !hangs(entry))
}

/** Since the machine's start, as processes have it. */
const ticksNow = (): number =>
  Math.floor(Number.parseFloat(readFileSync("/proc/uptime", "latin1")) * TICKS_PER_SECOND)
