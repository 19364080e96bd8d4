const WAITS = /^waiting: .*\n/gm

/**
 * The lines of `up` or `run` without those that say what is waited for: these come after a second, so on a busy machine
 * any boot may have them.
 */
export const withoutWaits = (stderr: string): string => stderr.replaceAll(WAITS, "")
