import { join } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import type { InstallationId } from "@berth/protocol/ids"
import { TOOLBOX_TARGET } from "@berth/protocol/inside"
import type { Mount, SandboxSpec } from "@berth/protocol/sandbox"
import { checkMountTargets } from "../mount-targets.ts"
import type { SandboxDirectories } from "./directories.ts"
import type { EngineMount } from "./engine/mount.ts"
import { cacheVolume, stackVolume, toolboxVolume } from "./engine/names.ts"
import { PRIVATE_TMPFS } from "./engine/private-tmpfs.ts"
import { checkPlace, checkSource } from "./mount-sources.ts"

export interface MountsInput {
  readonly spec: SandboxSpec
  readonly installation: InstallationId
  readonly directories: SandboxDirectories
  /** Directories that no mount may hold or lie in: Berth's own data. */
  readonly keepOut: readonly string[]
}

/** Refuses mounts whose source on the host or whose target inside is forbidden. */
export const checkMounts = async ({ spec, keepOut }: MountsInput): Promise<void> => {
  const { mounts } = spec.config
  checkMountTargets(mounts, { inMemory: Object.keys(PRIVATE_TMPFS) })
  for (const [index, mount] of mounts.entries()) {
    if (mount.kind === "cache" || mount.kind === "stack") continue
    const source = mount.kind === "shared" ? sharedDirectoryOf(spec, mount.target) : mount.source
    await checkSource(source, `mounts.${index}.source`)
    if (mount.kind === "directory") await checkPlace(source, `mounts.${index}.source`, keepOut)
  }
}

/** All mounts of a sandbox; the engine sorts them, outer ones first. */
export const engineMounts = ({ spec, installation, directories }: MountsInput): EngineMount[] => {
  const { mounts } = spec.config
  const taken = new Set(mounts.map(({ target }) => target))
  const own = [
    bind(directories.home, "/home", false),
    bind(directories.workspace, "/workspace", false),
  ].filter(({ Target }) => !taken.has(Target))
  return [...own, ...mounts.map((mount) => engineMount(mount, spec, installation))]
}

const engineMount = (
  mount: Mount,
  spec: SandboxSpec,
  installation: InstallationId,
): EngineMount => {
  const { target } = mount
  const { sandbox, workspace } = spec.identity
  switch (mount.kind) {
    case "directory":
      if (isToolbox(mount))
        return { ...volumeMount(toolboxVolume(sandbox), target), ReadOnly: true }
      return bind(mount.source, target, mount.readOnly)
    case "shared":
      return bind(sharedDirectoryOf(spec, target), target, false)
    case "cache":
      return volumeMount(cacheVolume(installation, workspace, mount.cache), target)
    case "stack":
      return volumeMount(stackVolume(sandbox, mount.stack), target)
  }
}

/**
 * A bind mount. A read-only one is not recursive: engines before 25 make only the outermost mount read-only, so mounts
 * below its source stay out of the sandbox.
 */
export const bind = (source: string, target: string, readOnly: boolean): EngineMount => ({
  Type: "bind",
  Source: source,
  Target: target,
  ReadOnly: readOnly,
  BindOptions: { Propagation: "rprivate", NonRecursive: readOnly },
})

export const volumeMount = (name: string, target: string): EngineMount => ({
  Type: "volume",
  Source: name,
  Target: target,
  ReadOnly: false,
  VolumeOptions: { NoCopy: true },
})

/** Whether a mount is the toolbox, the one directory of the host that Berth itself brings into every sandbox. */
export const isToolbox = (mount: Mount): boolean =>
  mount.kind === "directory" && mount.target === TOOLBOX_TARGET && mount.readOnly

/**
 * The options of an overlay over the toolbox. Watches and locks belong to inodes, and the overlay's inodes are this
 * sandbox's own. The files' pages in memory stay shared.
 */
export const toolboxOptions = (
  { config }: SandboxSpec,
  { empty }: SandboxDirectories,
): Readonly<Record<string, string>> | undefined => {
  const toolbox = config.mounts.find(isToolbox)
  if (toolbox?.kind !== "directory") return undefined
  const lower = [toolbox.source, empty].map(mountable).join(":")
  return { type: "overlay", device: "overlay", o: `ro,xino=auto,lowerdir=${lower}` }
}

const sharedDirectoryOf = ({ sharedDirectory }: SandboxSpec, target: string): string => {
  if (sharedDirectory !== undefined) return sharedDirectory
  throw new BerthError("input.invalid", "there is no shared directory", {
    details: { path: "sharedDirectory", target },
  })
}

/**
 * The options of each stack's overlay. The paths are absolute, since the engine mounts it from a directory of its own.
 */
export const stackOptions = ({ config, overlays = [] }: SandboxSpec) =>
  config.mounts
    .filter((mount) => mount.kind === "stack")
    .map(({ stack }) => {
      const overlay = overlays.find((each) => each.stack === stack)
      if (overlay === undefined) {
        throw new BerthError("input.invalid", `there is no overlay for the stack ${stack}`, {
          details: { path: "overlays", missing: stack },
        })
      }
      const whole = (path: string) => mountable(join(overlay.base, path))
      const paths = [
        `lowerdir=${overlay.lower.map(whole).join(":")}`,
        `upperdir=${whole(overlay.upper)}`,
        `workdir=${whole(overlay.work)}`,
      ]
      const others = overlay.options.filter((each) => !/^(lower|upper|work)dir=/.test(each))
      const o = fitting([...others, ...paths].join(","))
      return { stack, options: { type: "overlay", device: "overlay", o } }
    })

/** Refuses a path with a separator of mount options in it: engines pass no escapes on. */
const mountable = (path: string): string => {
  if (!/[,:\\]/.test(path)) return path
  throw new BerthError("backend.mount_invalid", "the data directory's path cannot be mounted", {
    details: { path, why: "it holds a comma, a colon or a backslash" },
  })
}

/**
 * The most bytes of mount options: the kernel takes one page of them, with a zero at its end, and pages are at least
 * this long.
 */
const MAX_OPTION_BYTES = 4_095

const fitting = (options: string): string => {
  const bytes = Buffer.byteLength(options)
  if (bytes <= MAX_OPTION_BYTES) return options
  throw new BerthError("layers.too_deep", "the layers do not fit into a mount's options", {
    details: { bytes, most: MAX_OPTION_BYTES },
  })
}
