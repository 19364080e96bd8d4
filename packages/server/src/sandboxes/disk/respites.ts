import type { FreeSpace } from "@berth/host/free-space"
import type { SandboxId } from "@berth/protocol/ids"
import type { Clock } from "../state/clock.ts"
import type { Allowance } from "./allowance.ts"

/** The time in which a person finds out which files take the room, and deletes them. */
export const RESPITE_MS = 15 * 60_000

/** Room for incidental writes of programs, shells and the supervisor among them. */
const SLACK: FreeSpace = { bytes: 32_000_000, inodes: 1_000 }

interface Respite {
  /** The room that the sandbox's files took when the respite began. */
  readonly used: Partial<FreeSpace>
  /** Why the sandbox was halted, if that was for a full disk. */
  readonly diskReason: string | undefined
}

/** The halted sandboxes that a person lets go on for a while, to make room in them. */
export interface Respites {
  begin(sandbox: SandboxId, respite: Respite): void
  end(sandbox: SandboxId): void
  /**
   * Ends the respite of a sandbox that is below its limit again. If a full disk had halted the sandbox, the respite
   * goes on.
   */
  endOfLimit(sandbox: SandboxId): void
  /** The allowance of a sandbox during its respite: the room that it has, and hardly more. */
  widen(sandbox: SandboxId, allowance: Allowance): Allowance
  /** Ends the respites whose time is over. Returns those that a full disk had halted, with that reason. */
  over(): [SandboxId, string][]
}

export const openRespites = (clock: Pick<Clock, "monotonicMs">): Respites => {
  const begun = new Map<SandboxId, Respite & { readonly untilMs: number }>()
  const isOver = ({ untilMs }: { readonly untilMs: number }) => clock.monotonicMs() >= untilMs
  return {
    begin: (sandbox, respite) => {
      begun.set(sandbox, { ...respite, untilMs: clock.monotonicMs() + RESPITE_MS })
    },
    end: (sandbox) => void begun.delete(sandbox),
    endOfLimit: (sandbox) => {
      if (begun.get(sandbox)?.diskReason === undefined) begun.delete(sandbox)
    },
    widen: (sandbox, allowance) => {
      const respite = begun.get(sandbox)
      if (respite === undefined || isOver(respite)) return allowance
      const widen = (what: keyof FreeSpace) =>
        allowance[what] === undefined
          ? {}
          : { [what]: Math.max(allowance[what], (respite.used[what] ?? 0) + SLACK[what]) }
      return { ...widen("bytes"), ...widen("inodes") }
    },
    over: () => {
      const ended = [...begun].filter(([, respite]) => isOver(respite))
      for (const [sandbox] of ended) begun.delete(sandbox)
      return ended.flatMap(([sandbox, { diskReason }]) =>
        diskReason === undefined ? [] : [[sandbox, diskReason] as [SandboxId, string]],
      )
    },
  }
}
