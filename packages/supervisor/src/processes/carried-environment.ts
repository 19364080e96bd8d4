import { MARK_VARIABLE } from "./tree/mark.ts"

/** No program reads variables of such names for itself, as node reads NODE_OPTIONS and the linker LD_PRELOAD. */
const PREFIX = "BERTH_CARRIED_"

type Environment = Readonly<Record<string, string | undefined>>

/** The user's environment on its way through a program of ours, which must not be changed by it. */
export const carryEnvironment = (environment: Environment): Record<string, string> =>
  Object.fromEntries(
    Object.entries(environment).flatMap(([name, value]) =>
      value === undefined ? [] : [[PREFIX + name, value]],
    ),
  )

/** The environment of the user's programs that such a program starts, with the mark of its own tree. */
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
