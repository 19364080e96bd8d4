import { setTimeout as delay, setImmediate as turn } from "node:timers/promises"
import type { User } from "../user.ts"
import { Census } from "./census.ts"
import type { Eyes } from "./look.ts"
import { type Marks, type MarksRead, readMarks } from "./mark.ts"
import { listProcesses, type ProcessEntry } from "./proc.ts"
import type { Grove, ProcessTree } from "./tree.ts"

/** Longest wait before a look. While processes are being started others end: some looks a second are enough. */
const LONGEST_WAIT_MS = 50
/** Pause after a look, as a multiple of its duration, which is long if there are thousands of processes. */
const PAUSES = 2

interface Asked {
  readonly tree: ProcessTree
  readonly answer: (found: Promise<readonly ProcessEntry[]>) => void
}

/**
 * Finds the members of many trees. Each look at all processes serves every caller that came before it began. Separate
 * looks for a thousand trees that end at the same time would take longer than their lives.
 */
export class Lookout {
  readonly #user: User | undefined
  readonly #calm: () => Promise<void>
  #asked: Asked[] = []
  #isLooking = false
  #nextAtMs = 0

  /**
   * `user` reads the environments that are hidden from the supervisor. `calm` resolves when nothing more urgent is to
   * be done; a look waits for it, but not for long.
   */
  constructor(user: User | undefined, calm: () => Promise<void>) {
    this.#user = user
    this.#calm = calm
  }

  /** Returns the tree with its members found by this lookout. */
  over(tree: ProcessTree): Grove {
    return {
      find: () => this.#find(tree),
      signal: (entries, signal) => tree.signal(entries, signal),
    }
  }

  #find(tree: ProcessTree): Promise<readonly ProcessEntry[]> {
    return new Promise((resolve) => {
      this.#asked.push({ tree, answer: resolve })
      if (!this.#isLooking) void this.#look()
    })
  }

  async #look(): Promise<void> {
    this.#isLooking = true
    while (this.#asked.length > 0) {
      await this.#untilTime()
      const beganAtMs = performance.now()
      const look = new SharedLook(this.#user)
      const found = this.#asked.splice(0).map(({ tree, answer }) => {
        const members = tree.findWith(look.eyesFor(tree))
        answer(members)
        return members
      })
      await Promise.allSettled(found)
      const endedAtMs = performance.now()
      this.#nextAtMs = endedAtMs + PAUSES * (endedAtMs - beganAtMs)
    }
    this.#isLooking = false
  }

  /**
   * Waits for a turn of the event loop, so that trees that end in the same turn are served together, then for the pause
   * and for calm.
   */
  async #untilTime(): Promise<void> {
    await turn()
    const waitMs = Math.min(this.#nextAtMs - performance.now(), LONGEST_WAIT_MS)
    if (waitMs > 0) await delay(waitMs)
    await Promise.race([this.#calm(), delay(LONGEST_WAIT_MS)])
  }
}

/** A look shared by the trees that asked together: their nth list is the same, and each mark is read once. */
class SharedLook {
  readonly #user: User | undefined
  readonly #lists: Census[] = []
  readonly #marks = new Map<number, Promise<MarksRead>>()

  constructor(user: User | undefined) {
    this.#user = user
  }

  eyesFor({ mark, root }: ProcessTree): Eyes {
    let looks = 0
    return {
      list: () => this.#list(looks++).of(root),
      marks: (pids) => this.#findMarked(pids, mark),
    }
  }

  #list(look: number): Census {
    const list = this.#lists[look] ?? new Census(listProcesses(), process.pid)
    this.#lists[look] = list
    return list
  }

  async #findMarked(pids: readonly number[], mark: string): Promise<Marks> {
    const unread = pids.filter((pid) => !this.#marks.has(pid))
    const reading = readMarks(unread, this.#user)
    for (const pid of unread) this.#marks.set(pid, reading)
    const [marked, gone] = [new Set<number>(), new Set<number>()]
    for (const [pid, read] of pids.map((pid) => [pid, this.#marks.get(pid)] as const)) {
      const { marks, gone: unseen } = (await read) ?? (await reading)
      if (marks.get(pid) === mark) marked.add(pid)
      if (!unseen.has(pid)) continue
      gone.add(pid)
      // The next look reads it anew, unless another look has begun to.
      if (this.#marks.get(pid) === read) this.#marks.delete(pid)
    }
    return { marked, gone }
  }
}
