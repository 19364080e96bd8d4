import { setTimeout as pause } from "node:timers/promises"
import { BerthError } from "@berth/protocol/errors"
import type { SandboxId } from "@berth/protocol/ids"
import { readFreeSpace } from "../../host/free-space.ts"
import { clear, findGroups, type Group, goOn, halt, isHalted, kill } from "../../host/halt.ts"
import type { Reserve } from "../../host/reserve.ts"
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

export const openRescue = ({ dataDir, reserve, log }: RescueParts): Rescue => {
  let halting: Promise<void> | undefined
  /** The cgroups that this server has halted. */
  const halted = new Set<string>()
  /** The operations that are being repeated. */
  const again = new Set<Promise<unknown>>()

  const haltAll = async (): Promise<void> => {
    await haltGroups(await findGroups(new Set((await namesOf(dataDir)).keys())))
  }

  /** Groups that an engine has paused are left out: they stay paused when the others go on. */
  const haltGroups = async (groups: readonly Group[]): Promise<void> => {
    const were = await Promise.all(groups.map(isHalted))
    const moving = groups.filter((_, index) => !were[index])
    for (const { directory } of moving) halted.add(directory)
    await halt(moving)
  }

  /** Gives up the reserve piece by piece, no more of it than the work takes. */
  const workOnReserve = async <Result>(work: () => Promise<Result>): Promise<Result> => {
    for (;;) {
      const isLast = !reserve.release()
      const working = work()
      again.add(working)
      try {
        return await working
      } catch (thrown) {
        if (isLast || !isDiskFull(thrown)) throw thrown
      } finally {
        again.delete(working)
      }
    }
  }

  const rescue: Rescue = {
    onHalt: () => {},
    get isHalted() {
      return halting !== undefined
    },
    halt: async () => {
      halting ??= haltAll().catch((thrown) => {
        // The next call tries again; groups that stand still already are then resumed as well.
        halting = undefined
        throw thrown
      })
      await halting
    },
    resume: async (held, running) => {
      await halting?.catch(() => {})
      await Promise.race([Promise.allSettled(again), pause(AGAIN_MS, undefined, { ref: false })])
      const names = await namesOf(dataDir)
      const mayGoOn = ({ name, directory }: Group) => {
        const sandbox = names.get(name)
        if (sandbox === undefined || held.has(sandbox)) return false
        return halted.has(directory) || running.has(sandbox)
      }
      const groups = (await findGroups(new Set(names.keys()))).filter(mayGoOn)
      halting = undefined
      for (const { directory } of groups) halted.delete(directory)
      await goOn(groups)
    },
    run: async (work) => {
      try {
        return await work()
      } catch (thrown) {
        if (!isDiskFull(thrown)) throw thrown
      }
      log.error(
        { op: "disk.rescue", dataDir },
        "The disk is full: all sandboxes are halted, and the server uses its reserve.",
      )
      await rescue.halt()
      try {
        return await workOnReserve(work)
      } finally {
        rescue.onHalt()
      }
    },
    isFull: () => isFull(dataDir),
    end: async (sandbox) => await kill(await groupsOf(dataDir, new Set([sandbox]))),
    hold: async (sandbox) => {
      await haltGroups(await groupsOf(dataDir, new Set([sandbox])))
    },
    clear: async (sandbox) => {
      const groups = await groupsOf(dataDir, new Set([sandbox]))
      for (const { directory } of groups) halted.delete(directory)
      await clear(groups)
    },
    pidsOf: (sandboxes) => processesOf(dataDir, sandboxes),
  }
  return rescue
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
