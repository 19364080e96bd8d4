/** The numbers of activity, apart from its schema: the supervisor loads no schema library. */

/** The longest that `?wait` may be: below what lies between server and sandbox gives a request. */
export const MAX_ACTIVITY_WAIT_MS = 25_000

/** That are told of; the server never has so many under way, and those beyond it change nothing. */
export const MAX_ACTIVE_PROMPTS = 4_096

/** No kernel gives out more pids. */
export const MAX_PROCESSES = 4_194_304
