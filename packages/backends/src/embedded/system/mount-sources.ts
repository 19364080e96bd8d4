import { realpath, stat } from "node:fs/promises"
import { BerthError } from "@berth/protocol/errors"
import type { Slug } from "@berth/protocol/ids"
import type { Mount } from "@berth/protocol/sandbox"
import type { CacheName } from "@berth/protocol/workspace"
import { checkMountTargets } from "../../mount-targets.ts"
import { isWithin } from "../../within.ts"
import { descend } from "./descend.ts"
import { type MountedAt, readMountTable, withSubmounts } from "./mount-table.ts"
import { BERTH_DIRECTORY, PRIVATE_TMPFS } from "./places.ts"
import type { Bind } from "./prepared.ts"

/** File systems that are interfaces to the host's kernel, not files. */
const KERNEL_FILE_SYSTEMS =
  /^(autofs|binfmt_misc|bpf|cgroup2?|configfs|debugfs|devpts|devtmpfs|efivarfs|fusectl|hugetlbfs|mqueue|nsfs|proc|pstore|securityfs|selinuxfs|sysfs|tracefs)$/

/** Places that no mount may take. Every system tree has the links of /var. */
const TAKEN = {
  closed: [BERTH_DIRECTORY],
  links: ["/var/lock", "/var/run", "/var/tmp"],
  inMemory: PRIVATE_TMPFS,
}

export interface MountOptions {
  readonly mounts: readonly Mount[]
  readonly cachePath: (cache: CacheName) => string
  /** The path at which a stack is mounted when the sandbox is made; nothing is there before. */
  readonly stackPath: (stack: Slug) => string
  /** The directory that the sandbox shares with the server. */
  readonly sharedDirectory: string | undefined
  /** Directories that no mount may hold or lie in: Berth's own data. */
  readonly keepOut: readonly string[]
}

/**
 * Resolves the config's mounts to binds, outer ones first. Refuses a mount whose source on the host or whose target
 * inside is forbidden.
 */
export const resolveMounts = async ({
  mounts,
  keepOut,
  ...places
}: MountOptions): Promise<readonly Bind[]> => {
  checkMountTargets(mounts, TAKEN)
  if (mounts.length === 0) return []
  const table = readMountTable()
  const binds = mounts.map((mount) => bindOf(mount, places))
  for (const [index, bind] of binds.entries()) {
    const path = `mounts.${index}.source`
    if (bind.mount.kind !== "stack") await checkSource(bind.source, path)
    if (bind.mount.kind === "directory") checkPlace(bind.source, path, keepOut, table)
    checkNesting(bind, binds, index)
  }
  const outerFirst = binds
    .map(({ source, target, readOnly }) => ({ source, target, readOnly }))
    .sort((one, other) => (one.target < other.target ? -1 : 1))
  return withSubmounts(outerFirst, table)
}

const bindOf = (
  mount: Mount,
  {
    cachePath,
    stackPath,
    sharedDirectory,
  }: Pick<MountOptions, "cachePath" | "stackPath" | "sharedDirectory">,
): Bind & { mount: Mount } => {
  const { target } = mount
  switch (mount.kind) {
    case "directory":
      return { source: mount.source, target, readOnly: mount.readOnly, mount }
    case "cache":
      return { source: cachePath(mount.cache), target, readOnly: false, mount }
    case "stack":
      return { source: stackPath(mount.stack), target, readOnly: false, mount }
    case "shared":
      if (sharedDirectory === undefined)
        throw new BerthError("input.invalid", "there is no shared directory", {
          details: { path: "sharedDirectory", target },
        })
      return { source: sharedDirectory, target, readOnly: false, mount }
  }
}

const checkSource = async (source: string, path: string): Promise<void> => {
  let leadsTo: string
  try {
    leadsTo = await realpath(source)
  } catch (cause) {
    const engineSaid = (cause as Error).message
    throw refused("the mount's source cannot be opened", { path, source, engineSaid }, cause)
  }
  if (leadsTo !== source) {
    throw refused("the mount's source leads through a link", { path, source, leadsTo })
  }
  if (!(await stat(source)).isDirectory()) {
    throw refused("the mount's source is not a directory", { path, source })
  }
}

const checkPlace = (
  source: string,
  path: string,
  keepOut: readonly string[],
  table: readonly MountedAt[],
): void => {
  const own = keepOut.find((place) => isWithin(place, source) || isWithin(source, place))
  if (own !== undefined) {
    throw refused("the mount's source holds Berth's own data", { path, source, dataDirectory: own })
  }
  const kernel = table.find(
    (mounted) =>
      KERNEL_FILE_SYSTEMS.test(mounted.type) &&
      (isWithin(mounted.path, source) || isWithin(source, mounted.path)),
  )
  if (kernel !== undefined) {
    throw refused("the mount's source holds the kernel's own files", {
      path,
      source,
      mounted: kernel,
    })
  }
}

/** Refuses a mount within a mount that has no directory for it: none is made in a directory of the host. */
const checkNesting = (
  inner: Bind,
  all: readonly (Bind & { mount: Mount })[],
  index: number,
): void => {
  const outer = all.find((bind) => bind !== inner && isWithin(inner.target, bind.target))
  // In a stack the directory is made: it is the workspace's own.
  if (outer === undefined || outer.mount.kind === "stack") return
  const found = descend(outer.source, inner.target.slice(outer.target.length))
  if (found.kind === "directory") return
  throw new BerthError("input.invalid", `${inner.target} is no directory in the mount around it`, {
    details: {
      path: `mounts.${index}.target`,
      target: inner.target,
      around: outer.target,
      source: outer.source,
    },
  })
}

const refused = (message: string, details: Readonly<Record<string, unknown>>, cause?: unknown) =>
  new BerthError("backend.mount_invalid", message, { details, cause })
