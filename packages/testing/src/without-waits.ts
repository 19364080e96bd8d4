const WAITS = /^waiting: .*\n/gm

/**
 * The output of `up` or `run` without the lines about waiting: these come after a second, so on a busy machine any boot
 * may have them.
 */
export const withoutWaits = (stderr: string): string => stderr.replaceAll(WAITS, "")
