import { join } from "node:path"
import { INIT_PATH, PRIVATE_DIRECTORIES, SANDBOX_FILES } from "./places.ts"
import type { Bind } from "./prepared.ts"

/** One path of a root directory that is to be written. */
export type Entry =
  | { readonly kind: "directory"; readonly mode: number }
  | { readonly kind: "link"; readonly to: string }
  | { readonly kind: "file"; readonly content: string }
  /** A copy of a file or directory of the host, as far as everybody may read it. */
  | { readonly kind: "copy"; readonly from: string }

/** The plan of a root directory: its entries, by path inside, and the binds into it. */
export interface SystemPlan {
  readonly entries: Map<string, Entry>
  readonly binds: readonly Bind[]
}

export const directory = (mode = 0o755): Entry => ({ kind: "directory", mode })
export const link = (to: string): Entry => ({ kind: "link", to })
export const file = (content: string): Entry => ({ kind: "file", content })

/** The C library asks files first, then the resolver: no service of the host. */
const NSSWITCH = `passwd: files
group: files
shadow: files
hosts: files dns
networks: files
protocols: files
services: files
`

/**
 * The entries that every root has: mount points for the runtime, and Berth's own. The runtimes give a tmpfs the mode of
 * the directory that it hides.
 */
export const commonEntries = (init: string): Map<string, Entry> =>
  new Map<string, Entry>([
    ["/proc", directory(0o555)],
    ["/sys", directory(0o555)],
    ["/dev", directory()],
    ["/run", directory()],
    ["/tmp", directory(0o1777)],
    ["/root", directory(0o700)],
    ...PRIVATE_DIRECTORIES.map((path) => [path, directory()] as const),
    ["/mnt", directory()],
    ["/media", directory()],
    ["/opt", directory()],
    ["/srv", directory()],
    // Copied into the tmpfs at /var. One size holds for /tmp and /var/tmp together.
    ["/var/cache", directory()],
    ["/var/lib", directory()],
    ["/var/log", directory()],
    ["/var/spool", directory()],
    ["/var/lock", link("../run/lock")],
    ["/var/run", link("../run")],
    ["/var/tmp", link("../tmp")],
    [INIT_PATH, { kind: "copy", from: init }],
    [SANDBOX_FILES, directory()],
    ...SANDBOX_FILE_NAMES.map(
      (name) => [`/etc/${name}`, link(`..${SANDBOX_FILES}/${name}`)] as const,
    ),
    ["/etc/mtab", link("../proc/self/mounts")],
    ["/etc/nsswitch.conf", file(NSSWITCH)],
  ])

/** The files of /etc that differ between sandboxes. */
export const SANDBOX_FILE_NAMES = ["hostname", "hosts", "resolv.conf"] as const

/** Adds the directories that mounts of the config need. */
export const addMountPoints = (entries: Map<string, Entry>, points: readonly string[]) => {
  for (const point of points) {
    const parts = point.split("/").slice(1)
    for (const depth of parts.keys()) {
      const path = join("/", ...parts.slice(0, depth + 1))
      if (!entries.has(path)) entries.set(path, directory())
    }
  }
}
