import { BerthError } from "@berth/protocol/errors"
import type { Mount } from "@berth/protocol/sandbox"
import { isWithin } from "./within.ts"

/**
 * Directories that no mount may have as its target, nor any below them: it would replace the system, or what stands
 * around the sandbox.
 */
const CLOSED = [
  ...["/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32"],
  ...["/proc", "/sbin", "/sys", "/usr"],
]

/** The fixed places of a backend's sandboxes. */
export interface TakenPlaces {
  /** Directories that are closed beside the system's own. */
  readonly closed?: readonly string[]
  /** Links, at which a mount would land elsewhere. */
  readonly links?: readonly string[]
  /** Directories that are private and in memory. */
  readonly inMemory: readonly string[]
}

/** Refuses mounts that would hide or replace parts that a sandbox stands on. */
export const checkMountTargets = (mounts: readonly Mount[], places: TakenPlaces): void => {
  const seen = new Set<string>()
  for (const [index, { target }] of mounts.entries()) {
    const why = whyNot(target, places, seen)
    if (why !== undefined) {
      throw new BerthError("input.invalid", `nothing can be mounted at ${target}: ${why}`, {
        details: { path: `mounts.${index}.target`, target, why },
      })
    }
    seen.add(target)
  }
}

const whyNot = (
  target: string,
  { closed = [], links = [], inMemory }: TakenPlaces,
  taken: ReadonlySet<string>,
): string | undefined => {
  if (target === "/") return "it would hide the whole system"
  const system = [...CLOSED, ...closed].find((place) => isWithin(target, place))
  if (system !== undefined) return `${system} belongs to the system`
  const link = links.find((place) => isWithin(target, place))
  if (link !== undefined) return `${link} is a link`
  if (inMemory.includes(target)) return "every sandbox has its own in memory; mount below it"
  if (taken.has(target)) return "another mount is there"
  return undefined
}
