import { setTimeout as pause } from "node:timers/promises"
import { readFreeSpace } from "@berth/host/free-space"
import { clear, findGroups, type Group, goOn, halt, isHalted, kill } from "@berth/host/halt"
import type { Reserve } from "@berth/host/reserve"
import { BerthError } from "@berth/protocol/errors"
import type { SandboxId } from "@berth/protocol/ids"
import type { Logger } from "../../logging/logger.ts"
import { groupsOf, namesOf, processesOf } from "../state/groups.ts"

export interface RescueParts {
  readonly dataDir: string
  readonly reserve: Reserve
  readonly log: Logger
}

/** Makes room for a write of the server that met a full disk. */
export interface Rescue {
  /**
   * Does the work. If the disk is full, halts all sandboxes, so that none of them takes the room that becomes free,
   * gives up a piece of the reserve, and does the work again, until it is done or nothing is left to give up.
   */
  run<Result>(work: () => Promise<Result>): Promise<Result>
  /** Halts all sandboxes, until `resume`. */
  halt(): Promise<void>
  readonly isHalted: boolean
  /**
   * Resumes all sandboxes that were halted here, except the held ones. A sandbox that runs for its engine but stands
   * still was halted by an earlier server, and is resumed as well.
   */
  resume(held: ReadonlySet<SandboxId>, running: ReadonlySet<SandboxId>): Promise<void>
  /** Halts one sandbox, until `resume`. */
  hold(sandbox: SandboxId): Promise<void>
  /** Ends all processes of a sandbox but its supervisor, which goes on. */
  clear(sandbox: SandboxId): Promise<void>
  pidsOf(sandboxes: ReadonlySet<SandboxId>): Promise<ReadonlyMap<SandboxId, number[]>>
  /** Whether the disk has too little left for a sandbox to end in order. */
  isFull(): Promise<boolean>
  /** Kills a sandbox's processes before they take another step. */
  end(sandbox: SandboxId): Promise<void>
  /** Called after each halt. */
  onHalt: () => void
}

/** Less than a store, an engine and a runtime need to end a sandbox. */
const FULL_BYTES = 4 * 1024 * 1024
const FULL_INODES = 64

/** Sandboxes stand still for at most this long while the server repeats a write that found no room. */
const AGAIN_MS = 5_000

export const openRescue = (parts: RescueParts): Rescue => new DiskRescue(parts)

class DiskRescue implements Rescue {
  onHalt = (): void => {}
  readonly #parts: RescueParts
  #halting: Promise<void> | undefined
  /** The cgroups that this server has halted. */
  readonly #halted = new Set<string>()
  /** The operations that are being repeated. */
  readonly #again = new Set<Promise<unknown>>()

  constructor(parts: RescueParts) {
    this.#parts = parts
  }

  get isHalted(): boolean {
    return this.#halting !== undefined
  }

  async run<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      return await work()
    } catch (thrown) {
      if (!isDiskFull(thrown)) throw thrown
    }
    const { log, dataDir } = this.#parts
    log.error(
      { op: "disk.rescue", dataDir },
      "The disk is full: all sandboxes are halted, and the server uses its reserve.",
    )
    await this.halt()
    try {
      return await this.#workOnReserve(work)
    } finally {
      this.onHalt()
    }
  }

  async halt(): Promise<void> {
    this.#halting ??= this.#haltAll().catch((thrown) => {
      // The next call tries again; groups that stand still already are then resumed as well.
      this.#halting = undefined
      throw thrown
    })
    await this.#halting
  }

  async resume(held: ReadonlySet<SandboxId>, running: ReadonlySet<SandboxId>): Promise<void> {
    await this.#halting?.catch(() => {})
    const repeated = Promise.allSettled(this.#again)
    await Promise.race([repeated, pause(AGAIN_MS, undefined, { ref: false })])
    const names = await namesOf(this.#parts.dataDir)
    const mayGoOn = ({ name, directory }: Group) => {
      const sandbox = names.get(name)
      if (sandbox === undefined || held.has(sandbox)) return false
      return this.#halted.has(directory) || running.has(sandbox)
    }
    const groups = (await findGroups(new Set(names.keys()))).filter(mayGoOn)
    this.#halting = undefined
    this.#forgetHalt(groups)
    await goOn(groups)
  }

  async hold(sandbox: SandboxId): Promise<void> {
    await this.#haltGroups(await this.#groupsOf(sandbox))
  }

  async clear(sandbox: SandboxId): Promise<void> {
    const groups = await this.#groupsOf(sandbox)
    this.#forgetHalt(groups)
    await clear(groups)
  }

  pidsOf(sandboxes: ReadonlySet<SandboxId>): Promise<ReadonlyMap<SandboxId, number[]>> {
    return processesOf(this.#parts.dataDir, sandboxes)
  }

  isFull(): Promise<boolean> {
    return isFull(this.#parts.dataDir)
  }

  async end(sandbox: SandboxId): Promise<void> {
    await kill(await this.#groupsOf(sandbox))
  }

  #groupsOf(sandbox: SandboxId): Promise<readonly Group[]> {
    return groupsOf(this.#parts.dataDir, new Set([sandbox]))
  }

  async #haltAll(): Promise<void> {
    const names = await namesOf(this.#parts.dataDir)
    await this.#haltGroups(await findGroups(new Set(names.keys())))
  }

  /** Groups that an engine has paused are left out: they stay paused when the others go on. */
  async #haltGroups(groups: readonly Group[]): Promise<void> {
    const were = await Promise.all(groups.map(isHalted))
    const moving = groups.filter((_, index) => !were[index])
    for (const { directory } of moving) this.#halted.add(directory)
    await halt(moving)
  }

  #forgetHalt(groups: readonly Group[]): void {
    for (const { directory } of groups) this.#halted.delete(directory)
  }

  /** Gives up the reserve piece by piece, no more of it than the work takes. */
  async #workOnReserve<Result>(work: () => Promise<Result>): Promise<Result> {
    for (;;) {
      const isLast = !this.#parts.reserve.release()
      const working = work()
      this.#again.add(working)
      try {
        return await working
      } catch (thrown) {
        if (isLast || !isDiskFull(thrown)) throw thrown
      } finally {
        this.#again.delete(working)
      }
    }
  }
}

/** The rescue where nobody watches the disk. */
export const NO_RESCUE: Rescue = {
  run: (work) => work(),
  halt: async () => {},
  isHalted: false,
  resume: async () => {},
  hold: async () => {},
  clear: async () => {},
  pidsOf: async () => new Map(),
  isFull: async () => false,
  end: async () => {},
  onHalt: () => {},
}

/** A disk that cannot be read does not count as full. */
const isFull = async (dataDir: string): Promise<boolean> => {
  const free = await readFreeSpace(dataDir).catch(() => undefined)
  return free !== undefined && (free.bytes < FULL_BYTES || free.inodes < FULL_INODES)
}

/** Whether an error, or its cause, says that no space was left. */
export const isDiskFull = (thrown: unknown): boolean => {
  if (!(thrown instanceof Error)) return false
  const { code } = thrown as NodeJS.ErrnoException
  if (thrown instanceof BerthError ? thrown.code.endsWith(".disk_full") : FULL_CODES.has(code))
    return true
  return isDiskFull(thrown.cause)
}

const FULL_CODES: ReadonlySet<unknown> = new Set(["ENOSPC", "EDQUOT"])
