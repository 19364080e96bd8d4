import { signalGroup, signalPid } from "../signal-group.ts"
import type { User } from "../user.ts"
import { type Eyes, findMembers } from "./look.ts"
import { findMarked } from "./mark.ts"
import type { TreeRoot } from "./members.ts"
import { listProcesses, type ProcessEntry, stillRuns } from "./proc.ts"

/** Processes that are found and signalled together. */
export interface Grove {
  /** Finds the processes that run now. */
  find(): Promise<readonly ProcessEntry[]>
  signal(entries: readonly ProcessEntry[], signal: NodeJS.Signals): void
}

export interface TreeOptions {
  readonly root: TreeRoot
  readonly mark: string
  readonly user: User | undefined
  /** Whether the root's pid still belongs to the root: the kernel cannot reuse it before the exit status is taken. */
  readonly isRootOurs: () => boolean
}

/**
 * A process that the supervisor started, and everything that came from it, also processes that left its group, session
 * and parent (a double fork with setsid).
 *
 * A process that did all of that *and* has another environment (`env -i`, or a program that writes its title over it)
 * is not found. It lives until the sandbox ends, see `pid-namespace.ts`.
 */
export class ProcessTree implements Grove {
  readonly root: TreeRoot
  readonly #options: TreeOptions

  constructor(options: TreeOptions) {
    this.root = options.root
    this.#options = options
  }

  find(): Promise<readonly ProcessEntry[]> {
    const { mark, user } = this.#options
    return this.findWith({ list: listProcesses, marks: (pids) => findMarked(pids, mark, user) })
  }

  findWith(eyes: Eyes): Promise<readonly ProcessEntry[]> {
    return findMembers(this.root, eyes, process.pid)
  }

  get mark(): string {
    return this.#options.mark
  }

  /** Signals the root's group with one call, so that no fork slips through, and the other members one by one. */
  signal(entries: readonly ProcessEntry[], signal: NodeJS.Signals): void {
    const isWhole = this.#options.isRootOurs()
    if (isWhole) signalGroup(this.root.pid, signal)
    for (const entry of entries)
      if (!(isWhole && entry.groupId === this.root.pid)) signalProcess(entry, signal)
  }
}

/** Checks that the process still runs, so that a later one with the same pid is spared. */
export const signalProcess = (entry: ProcessEntry, signal: NodeJS.Signals): void => {
  if (stillRuns(entry)) signalPid(entry.pid, signal)
}
