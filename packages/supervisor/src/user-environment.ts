import { join } from "node:path"

export interface UserEnvironmentParts {
  readonly home: string
  readonly name: string
  readonly toolbox: string
  /** What git asks for credentials. */
  readonly git: Readonly<Record<string, string>>
  /** The workspace's own: it wins over everything but what Berth itself needs. */
  readonly own: Readonly<Record<string, string>>
}

const SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/**
 * Of everything that runs as the sandbox's user. The toolbox comes last on the path: a system's own node or
 * git is the one that a repo expects. A path of the workspace's own comes before it all.
 */
export const userEnvironment = (parts: UserEnvironmentParts): Readonly<Record<string, string>> => ({
  SHELL: "/bin/sh",
  LANG: "C.UTF-8",
  ...parts.own,
  PATH: [
    ...(parts.own.PATH ? [parts.own.PATH] : []),
    ...[join(parts.home, ".local/bin"), SYSTEM_PATH, join(parts.toolbox, "bin")],
  ].join(":"),
  HOME: parts.home,
  USER: parts.name,
  LOGNAME: parts.name,
  ...parts.git,
})
