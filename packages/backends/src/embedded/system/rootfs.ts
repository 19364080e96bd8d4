import { lstatSync, readdirSync, readFileSync, readlinkSync, realpathSync } from "node:fs"
import { join } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import { group, passwd } from "../../accounts.ts"
import { isWithin } from "../../within.ts"
import { descend } from "./descend.ts"
import { withSubmounts } from "./mount-table.ts"
import { BERTH_DIRECTORY, ROOTFS_ETC } from "./places.ts"
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

export interface RootfsOptions {
  readonly path: string
  /** The directory in which Berth keeps its roots: never to be seen inside. */
  readonly directory: string
  readonly init: string
  readonly mountPoints: readonly string[]
}

/** Top-level directories that are not taken from a rootfs: every sandbox has its own. */
const NOT_TAKEN = new Set(["proc", "sys", "dev", "run", "tmp", "root", "var", "home", "workspace"])
const NEVER_SHOWN = new Set(["lost+found", BERTH_DIRECTORY.slice(1), "etc"])

/** The names by which programs call directories of /usr, where that holds everything. */
const USR_LINKS = ["bin", "sbin", "lib", "lib64"] as const

/**
 * Plans a system tree with a directory's system, read-only. The root is a directory of Berth's own that binds the
 * top-level entries of the rootfs: so the rootfs needs no mount points, and nothing is ever written to it.
 */
export const rootfsPlan = ({
  path,
  directory: roots,
  init,
  mountPoints,
}: RootfsOptions): SystemPlan => {
  checkRootfs(path, roots)
  const entries = commonEntries(init)
  const binds: Bind[] = []
  for (const name of readdirSync(path).sort()) {
    if (NOT_TAKEN.has(name) || NEVER_SHOWN.has(name)) continue
    if (lstatSync(join(path, name)).isFile()) continue
    graft({ source: join(path, name), target: `/${name}`, entries, binds, mountPoints })
  }
  for (const name of USR_LINKS) {
    if (!entries.has(`/${name}`) && isDirectory(join(path, "usr", name))) {
      entries.set(`/${name}`, link(`usr/${name}`))
    }
  }
  graftEtc(path, entries, binds)
  addMountPoints(entries, mountPoints)
  return { entries, binds: withSubmounts(binds) }
}

const checkRootfs = (path: string, roots: string) => {
  let leadsTo: string
  try {
    leadsTo = realpathSync(path)
  } catch (cause) {
    throw invalid(
      "the rootfs cannot be opened",
      { path, engineSaid: (cause as Error).message },
      cause,
    )
  }
  if (leadsTo !== path) throw invalid("the rootfs's path leads through a link", { path, leadsTo })
  if (!isDirectory(path)) throw invalid("the rootfs is not a directory", { path })
  if (isWithin(roots, path)) {
    throw invalid("the rootfs holds Berth's own data", { path, dataDirectory: roots })
  }
  if (!["usr/bin", "bin"].some((bin) => isDirectory(join(path, bin)))) {
    throw invalid("the rootfs has neither usr/bin nor bin", { path })
  }
  for (const name of ["usr", "etc"]) {
    const inner = join(path, name)
    if (lstatSync(inner, { throwIfNoEntry: false })?.isSymbolicLink()) {
      throw invalid(`the rootfs's ${name} is a link`, { path: inner, leadsTo: readlinkSync(inner) })
    }
  }
}

const invalid = (message: string, details: Readonly<Record<string, unknown>>, cause?: unknown) =>
  new BerthError("backend.rootfs_invalid", message, { details, cause })

interface Graft {
  readonly source: string
  readonly target: string
  readonly entries: Map<string, Entry>
  readonly binds: Bind[]
  readonly mountPoints: readonly string[]
}

/**
 * Brings one entry of the rootfs in. A directory is bound whole, unless the config mounts something below it at a path
 * that it does not have: then it is rebuilt from its own entries, with that path among them.
 */
const graft = ({ source, target, entries, binds, mountPoints }: Graft): void => {
  const seen = lstatSync(source)
  const below = mountPoints.filter((point) => isWithin(point, target))
  if (!seen.isDirectory() && below.length > 0) {
    throw new BerthError("input.invalid", `${target} is no directory in the rootfs`, {
      details: { path: "mounts", targets: below, inTheWay: source },
    })
  }
  if (seen.isSymbolicLink()) {
    entries.set(target, link(readlinkSync(source)))
  } else if (seen.isFile()) {
    // crun does not bind a file with flags that hold for all below it.
    entries.set(target, { kind: "copy", from: source })
  } else if (seen.isDirectory()) {
    entries.set(target, directory())
    const children = readdirSync(source).sort()
    const found = below.map((point) => descend(source, point.slice(target.length)))
    if (found.every(({ kind }) => kind === "directory")) {
      if (children.length > 0) binds.push({ source, target, readOnly: true })
      return
    }
    for (const name of children) {
      const child = { source: join(source, name), target: join(target, name) }
      graft({ ...child, entries, binds, mountPoints })
    }
  }
}

/**
 * Brings in the rootfs's /etc beside Berth's own files: bound aside, with a link to each of its entries. Entries that
 * are links themselves are taken over as they are.
 */
const graftEtc = (path: string, entries: Map<string, Entry>, binds: Bind[]) => {
  const etc = join(path, "etc")
  const names = isDirectory(etc) ? readdirSync(etc).sort() : []
  const own = (name: string) => readIfFile(join(etc, name))
  const shell = ["bin/bash", "usr/bin/bash"].some((bash) => exists(join(path, bash)))
    ? "bash"
    : "sh"
  entries.set("/etc/passwd", file(passwd(own("passwd"), `/bin/${shell}`)))
  entries.set("/etc/group", file(group(own("group"))))
  if (names.includes("nsswitch.conf")) entries.delete("/etc/nsswitch.conf")
  for (const name of names) {
    if (entries.has(`/etc/${name}`)) continue
    const inner = join(etc, name)
    const isLink = lstatSync(inner).isSymbolicLink()
    entries.set(`/etc/${name}`, link(isLink ? readlinkSync(inner) : `..${ROOTFS_ETC}/${name}`))
  }
  entries.set(ROOTFS_ETC, directory())
  if (names.length > 0) binds.push({ source: etc, target: ROOTFS_ETC, readOnly: true })
  // Links below /etc that climb out of it (../../usr/share/…) climb into these links.
  for (const name of ["usr", "bin", "sbin", "lib", "opt", "run", "var"]) {
    entries.set(`${BERTH_DIRECTORY}/system/${name}`, link(`../../${name}`))
  }
}

const isDirectory = (path: string): boolean =>
  lstatSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false

const exists = (path: string): boolean => lstatSync(path, { throwIfNoEntry: false }) !== undefined

/** Reads a file, never through a link, which would lead out of the rootfs. */
const readIfFile = (path: string): string | undefined =>
  lstatSync(path, { throwIfNoEntry: false })?.isFile() ? readFileSync(path, "utf8") : undefined
