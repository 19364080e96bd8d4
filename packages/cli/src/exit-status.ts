export const DONE = 0
export const FAILED = 1
/** A value that was given, by flag, environment or file, cannot be used. */
export const WRONG_USAGE = 2

/** Berth failed, and not the other program whose status the command would report. */
export const BERTH_FAILED = 125
/** The other program could not be started. The same as in shells. */
export const NOT_STARTED = 127
/** The other program's time was up. The same as of `timeout`. */
export const TIMED_OUT = 124

/** The caller ended the command with ctrl-c. The same as in shells. */
export const LEFT = 130
