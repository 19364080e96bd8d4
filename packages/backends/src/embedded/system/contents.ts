import { createHash } from "node:crypto"
import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  readFileSync,
  type Stats,
} from "node:fs"
import { join } from "node:path"
import type { SystemContents } from "@berth/protocol/sandbox"

/**
 * Files in which a distribution says what it is and which packages it has. They are read whole, as often as they
 * change.
 */
const TEXTS = [
  "usr/lib/os-release",
  "etc/os-release",
  "var/lib/dpkg/status",
  "lib/apk/db/installed",
  "usr/lib/apk/db/installed",
]

/** Databases of packages that are large, or directories: their time of change says enough. */
const DATABASES = [
  "var/lib/rpm/rpmdb.sqlite",
  "usr/lib/sysimage/rpm/rpmdb.sqlite",
  "var/lib/rpm/Packages",
  "var/lib/pacman/local",
]

/**
 * Directories that change when a program or a library comes or goes, and stay as they are while a host only works.
 * /etc is not among them: a new lease of an address rewrites a file in it.
 */
const DIRECTORIES = [
  ...["bin", "sbin", "lib", "lib64", "usr/bin", "usr/sbin", "usr/lib", "usr/lib64", "usr/libexec"],
  ...["usr/local/bin", "usr/local/sbin", "usr/local/lib", "etc/alternatives", "etc/ssl/certs"],
]

/** Longer texts count by their time of change. */
const MAX_TEXT_BYTES = 32 * 1024 * 1024

/** Tells the contents of a system tree, as far as that is possible without walking it. */
export type ReadContents = (root: string) => SystemContents

/** A look takes some thirty calls to the kernel; a text is read again only if it was changed. */
export const openContents = (): ReadContents => {
  const texts = new Map<string, { readonly stamp: string; readonly digest: string }>()

  const digestOf = (file: string): string | undefined => {
    const seen = lookAt(file)
    if (seen === undefined) return undefined
    const stamp = stampOf(seen)
    const known = texts.get(file)
    if (known?.stamp === stamp) return known.digest
    const digest = readDigest(file) ?? stamp
    texts.set(file, { stamp, digest })
    return digest
  }

  return (root) => {
    const changed = (path: string) => {
      const seen = lookAt(join(root, path))
      return seen && stampOf(seen)
    }
    const told = [
      ...TEXTS.map((path) => [path, digestOf(join(root, path))]),
      ...[...DATABASES, ...DIRECTORIES].map((path) => [path, changed(path)]),
    ]
    return createHash("sha256").update(JSON.stringify(told)).digest("hex")
  }
}

const lookAt = (path: string): Stats | undefined => {
  try {
    return lstatSync(path, { throwIfNoEntry: false })
  } catch {
    // A part of the path is no directory, or is not to be looked into.
    return undefined
  }
}

/** Identifies a version of a file. Nobody but the kernel sets the time of a change. */
const stampOf = ({ ino, size, ctimeMs }: Stats): string => `${ino} ${size} ${ctimeMs}`

/** The digest of a file. A link is not followed and a pipe not waited for: the tree may be another user's. */
const readDigest = (file: string): string | undefined => {
  let handle: number | undefined
  try {
    handle = openSync(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
    const seen = fstatSync(handle)
    if (!seen.isFile() || seen.size > MAX_TEXT_BYTES) return undefined
    return createHash("sha256").update(readFileSync(handle)).digest("hex")
  } catch {
    return undefined
  } finally {
    if (handle !== undefined) closeSync(handle)
  }
}
