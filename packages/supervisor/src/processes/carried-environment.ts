import { MARK_VARIABLE } from "@berth/protocol/process-mark"

/** Prefix of carried variables. No program reads variables of such names, unlike NODE_OPTIONS or LD_PRELOAD. */
const PREFIX = "BERTH_CARRIED_"

type Environment = Readonly<Record<string, string | undefined>>

/** Renames the user's variables so that they pass through a program of ours without affecting it. */
export const carryEnvironment = (environment: Environment): Record<string, string> =>
  Object.fromEntries(
    Object.entries(environment).flatMap(([name, value]) =>
      value === undefined ? [] : [[PREFIX + name, value]],
    ),
  )

/**
 * Restores the carried variables for the user's programs that our program starts, and adds the mark of its own tree.
 */
export const carriedEnvironment = (own: Environment): Record<string, string> => {
  const mark = own[MARK_VARIABLE]
  const carried = Object.entries(own).flatMap(([name, value]) =>
    name.startsWith(PREFIX) ? [[name.slice(PREFIX.length), value] as const] : [],
  )
  return {
    ...(Object.fromEntries(carried) as Record<string, string>),
    ...(mark !== undefined && { [MARK_VARIABLE]: mark }),
  }
}
