/** The commands of sandboxes that several subjects of the contract use. */

/** A first process that runs until it is asked to end, then ends well. */
export const WAIT = ["/bin/sh", "-c", "trap 'exit 0' TERM; echo up; while :; do sleep 0.02; done"]

/** A first process that ignores SIGTERM, so that only SIGKILL ends it. */
export const STUBBORN = ["/bin/sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.02; done"]

/** A first process that runs until it is ended, and takes no processor time from the others. */
export const IDLE = ["/bin/sh", "-c", "exec sleep 1000"]
