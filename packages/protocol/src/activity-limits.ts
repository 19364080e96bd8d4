/** The numbers of activity, apart from its schema: the supervisor loads no schema library. */

/** The longest `?wait`: shorter than any timeout between server and sandbox. */
export const MAX_ACTIVITY_WAIT_MS = 25_000

/** The most prompts in one answer; the server never has so many under way, and more would change nothing. */
export const MAX_ACTIVE_PROMPTS = 4_096

/** The most processes: no kernel gives out more pids. */
export const MAX_PROCESSES = 4_194_304
