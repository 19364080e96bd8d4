export const DONE = 0
export const FAILED = 1
/** What was given, by flag, environment or file, cannot be used. */
export const WRONG_USAGE = 2

/** Of commands whose own status is that of another: Berth failed, and not the other. */
export const BERTH_FAILED = 125
/** The other could not be started. As shells say it. */
export const NOT_STARTED = 127
/** The other's time was up. As `timeout` says it. */
export const TIMED_OUT = 124

/** Whoever ran it ended it with ctrl-c. As shells say it. */
export const LEFT = 130
