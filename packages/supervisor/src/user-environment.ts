import { join } from "node:path"

export interface UserEnvironmentParts {
  readonly home: string
  readonly name: string
  readonly toolbox: string
  /** Variables that make git ask the supervisor for credentials. */
  readonly git: Readonly<Record<string, string>>
  /** The workspace's variables, which override everything but what Berth itself needs. */
  readonly own: Readonly<Record<string, string>>
}

const SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/**
 * The environment of everything that runs as the sandbox's user. The toolbox comes last in PATH, as a repo expects the
 * system's own node or git. The workspace's own PATH comes first.
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
