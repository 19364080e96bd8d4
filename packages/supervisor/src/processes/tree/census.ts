import type { TreeRoot } from "./members.ts"
import type { ProcessEntry, ProcessList } from "./proc.ts"

/**
 * A list of all processes, which serves many trees. Each gets the processes that may belong to it: those below its
 * root, and those below no child of the supervisor. Processes below another child belong to that child.
 */
export class Census {
  readonly #byChild: ReadonlyMap<number | undefined, readonly ProcessEntry[]>
  readonly #list: ProcessList

  constructor(list: ProcessList, supervisorPid: number) {
    const { entries } = list
    const byPid = new Map(entries.map((entry) => [entry.pid, entry]))
    const childOf = new Map<number, number | undefined>()
    const climb = (entry: ProcessEntry): number | undefined => {
      if (childOf.has(entry.pid)) return childOf.get(entry.pid)
      // Set first, so that a loop of reused pids ends.
      childOf.set(entry.pid, undefined)
      const parent = byPid.get(entry.parentPid)
      const found =
        entry.parentPid === supervisorPid
          ? entry.pid
          : parent === undefined || parent.pid === supervisorPid
            ? undefined
            : climb(parent)
      childOf.set(entry.pid, found)
      return found
    }
    this.#byChild = Map.groupBy(entries, climb)
    this.#list = list
  }

  of({ pid }: TreeRoot): ProcessList {
    const common = this.#byChild.get(undefined) ?? []
    const entries = [...common, ...(this.#byChild.get(pid) ?? [])]
    const { pids, unseen } = this.#list
    return { entries, pids, unseen }
  }
}
