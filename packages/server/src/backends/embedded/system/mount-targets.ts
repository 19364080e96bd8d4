import { BerthError } from "@berth/protocol/errors"
import type { Mount } from "@berth/protocol/sandbox"
import { BERTH_DIRECTORY, isWithin, PRIVATE_TMPFS } from "./places.ts"

/** Nothing is mounted there or below: it would replace the system, or what stands around the sandbox. */
const CLOSED = [
  "/bin",
  "/boot",
  "/dev",
  "/etc",
  "/lib",
  "/lib32",
  "/lib64",
  "/libx32",
  "/proc",
  "/sbin",
  "/sys",
  "/usr",
  BERTH_DIRECTORY,
] as const

/** Links that every system tree has: a mount there would land elsewhere. */
const LINKS = ["/var/lock", "/var/run", "/var/tmp"] as const

/** Refuses mounts that would hide or replace what a sandbox stands on. */
export const checkMountTargets = (mounts: readonly Mount[]): void => {
  const seen = new Set<string>()
  for (const [index, { target }] of mounts.entries()) {
    const why = whyNot(target, seen)
    if (why !== undefined) {
      throw new BerthError("input.invalid", `nothing can be mounted at ${target}: ${why}`, {
        details: { path: `mounts.${index}.target`, target, why },
      })
    }
    seen.add(target)
  }
}

const whyNot = (target: string, taken: ReadonlySet<string>): string | undefined => {
  if (target === "/") return "it would hide the whole system"
  const closed = CLOSED.find((place) => isWithin(target, place))
  if (closed !== undefined) return `${closed} belongs to the system`
  const link = LINKS.find((place) => isWithin(target, place))
  if (link !== undefined) return `${link} is a link`
  if ((PRIVATE_TMPFS as readonly string[]).includes(target)) {
    return "every sandbox has its own in memory; mount below it"
  }
  if (taken.has(target)) return "another mount is there"
  return undefined
}
