import { lstatSync, readdirSync, readlinkSync, realpathSync } from "node:fs"
import { dirname, join, resolve } from "node:path"
import { group, passwd } from "../../accounts.ts"
import { isWithin } from "../../within.ts"
import { ETC_ENTRIES } from "./etc-entries.ts"
import { withSubmounts } from "./mount-table.ts"
import type { Bind } from "./prepared.ts"
import {
  addMountPoints,
  commonEntries,
  directory,
  type Entry,
  file,
  link,
  type SystemPlan,
} from "./tree.ts"

/** These names are links where /usr holds everything, and directories of their own where it does not. */
const USR_LINKS = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"] as const

export interface HostOptions {
  /** The root of the host's file system. */
  readonly host?: string
  readonly init: string
  readonly mountPoints: readonly string[]
}

/** Plans a system tree with the host's /usr, read-only, and the listed part of its /etc. */
export const hostPlan = ({ host = "/", init, mountPoints }: HostOptions): SystemPlan => {
  const entries = commonEntries(init)
  entries.set("/usr", directory())
  const binds: Bind[] = [readOnly(join(host, "usr"), "/usr")]
  for (const name of USR_LINKS) {
    const path = join(host, name)
    const seen = lstatSync(path, { throwIfNoEntry: false })
    if (seen?.isSymbolicLink()) entries.set(`/${name}`, link(readlinkSync(path)))
    if (seen?.isDirectory()) {
      entries.set(`/${name}`, directory())
      binds.push(readOnly(path, `/${name}`))
    }
  }
  for (const [name, from] of etcCopies(join(host, "etc"))) {
    entries.set(`/etc/${name}`, { kind: "copy", from } satisfies Entry)
  }
  const shell = lstatSync(join(host, "usr/bin/bash"), { throwIfNoEntry: false }) ? "bash" : "sh"
  entries.set("/etc/passwd", file(passwd(undefined, `/bin/${shell}`)))
  entries.set("/etc/group", file(group(undefined)))
  addMountPoints(entries, mountPoints)
  return { entries, binds: withSubmounts(binds) }
}

const readOnly = (source: string, target: string): Bind => ({ source, target, readOnly: true })

/** The listed entries that exist, by name below /etc, with the path that each is copied from. */
const etcCopies = (etc: string): Map<string, string> => {
  const found = Object.keys(ETC_ENTRIES).flatMap((pattern) => matching(etc, pattern))
  const copies = new Map<string, string>()
  for (const name of found) {
    const path = join(etc, name)
    const seen = lstatSync(path, { throwIfNoEntry: false })
    if (seen === undefined) continue
    const leadsTo = seen.isSymbolicLink() ? target(path) : path
    if (leadsTo !== undefined) copies.set(name, leadsTo)
  }
  return copies

  /**
   * The path to copy from. A link stays a link if its target is inside as well; otherwise the end of the link is
   * copied.
   */
  function target(path: string): string | undefined {
    const next = resolve(dirname(path), readlinkSync(path))
    if (isWithin(next, "/usr") || found.some((name) => isWithin(next, join(etc, name)))) return path
    try {
      return realpathSync(path)
    } catch {
      return undefined
    }
  }
}

const matching = (etc: string, pattern: string): string[] => {
  if (!pattern.endsWith("*")) return [pattern]
  const start = pattern.slice(0, -1)
  return readdirSync(etc)
    .filter((name) => name.startsWith(start))
    .sort()
}
