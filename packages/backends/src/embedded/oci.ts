import type { SeccompProfile } from "../seccomp/format.ts"

/** The part of the OCI runtime specification that Berth uses (config.json of a bundle). */
export interface OciConfig {
  readonly ociVersion: string
  readonly process: OciProcess
  readonly root: { readonly path: string; readonly readonly: boolean }
  readonly hostname: string
  readonly mounts: readonly OciMount[]
  readonly annotations: Readonly<Record<string, string>>
  readonly linux: OciLinux
}

export interface OciProcess {
  readonly terminal: boolean
  readonly user: { readonly uid: number; readonly gid: number; readonly umask: number }
  readonly args: readonly string[]
  readonly env: readonly string[]
  readonly cwd: string
  readonly capabilities: Readonly<
    Record<"bounding" | "effective" | "permitted" | "inheritable" | "ambient", readonly string[]>
  >
  readonly rlimits: readonly OciRlimit[]
  readonly noNewPrivileges: boolean
}

export interface OciRlimit {
  readonly type: string
  readonly soft: number
  readonly hard: number
}

export interface OciMount {
  readonly destination: string
  readonly type: string
  readonly source: string
  readonly options: readonly string[]
}

interface OciIdMapping {
  readonly containerID: number
  readonly hostID: number
  readonly size: number
}

export interface OciLinux {
  readonly cgroupsPath: string
  readonly namespaces: readonly { readonly type: string; readonly path?: string }[]
  readonly uidMappings: readonly OciIdMapping[]
  readonly gidMappings: readonly OciIdMapping[]
  readonly sysctl: Readonly<Record<string, string>>
  readonly rootfsPropagation: string
  readonly maskedPaths: readonly string[]
  readonly readonlyPaths: readonly string[]
  readonly seccomp?: SeccompProfile
}
