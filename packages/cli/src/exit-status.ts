export const DONE = 0
export const FAILED = 1
/** What was given, by flag, environment or file, cannot be used. */
export const WRONG_USAGE = 2
