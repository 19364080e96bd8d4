import { dirname, isAbsolute, join } from "node:path"

/** The default directories. */
export interface Directories {
  readonly home: string
  /** The default data directory. */
  readonly state: string
  /** The configuration file that is read when it is present. */
  readonly configFile: string
}

/** The data directory of root's server, unless root names another. */
export const SYSTEM_DATA_DIR = "/var/lib/berth"

export interface Surroundings {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly home: string
  readonly isRoot: boolean
}

/**
 * The default directories. An XDG variable wins. Without one, root gets the system's directories: its home is closed to
 * every other uid, so sandboxes whose root is nobody outside could not reach their files there.
 */
export const defaultDirectories = ({ env, home, isRoot }: Surroundings): Directories => {
  const state =
    xdg(env.XDG_STATE_HOME) ?? (isRoot ? dirname(SYSTEM_DATA_DIR) : join(home, ".local/state"))
  const config = xdg(env.XDG_CONFIG_HOME) ?? (isRoot ? "/etc" : join(home, ".config"))
  return { home, state: join(state, "berth"), configFile: join(config, "berth", "config.yaml") }
}

/** Relative paths are ignored, as the XDG specification demands. */
const xdg = (value: string | undefined): string | undefined =>
  value !== undefined && isAbsolute(value) ? value : undefined
