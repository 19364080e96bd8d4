import { BerthError } from "@berth/protocol/errors"
import type { Mount } from "@berth/protocol/sandbox"

/** Nothing is mounted there or below: it would replace the system, or what stands around the sandbox. */
const CLOSED = [
  ...["/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32"],
  ...["/proc", "/sbin", "/sys", "/usr"],
]

/** What every sandbox has for itself in memory, with the mode of each. */
export const PRIVATE_TMPFS = { "/tmp": "1777", "/run": "0755", "/root": "0700", "/var/tmp": "1777" }

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
  if (target in PRIVATE_TMPFS) return "every sandbox has its own in memory; mount below it"
  if (taken.has(target)) return "another mount is there"
  return undefined
}

/** Whether `path` is `place` or lies below it. */
export const isWithin = (path: string, place: string): boolean =>
  path === place || path.startsWith(place === "/" ? "/" : `${place}/`)
