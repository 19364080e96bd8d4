/** The option that `mountCommand` knows; mount(8) leaves out what begins with X-. */
export const WRITER_OPTION = "X-berth.writer"

/**
 * Has an overlay write as a user of the host who is not root. An overlay writes with the credentials of whoever mounts it, and ext4 gives
 * the blocks that it reserves for root to whoever has root's file system uid.
 */
export const writtenBy = (uid: number): string => `${WRITER_OPTION}=${uid}`
