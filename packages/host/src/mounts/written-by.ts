/** An option for `mountCommand`; mount(8) ignores options that begin with X-. */
export const WRITER_OPTION = "X-berth.writer"

/**
 * Has an overlay write as a user of the host who is not root. An overlay writes with the credentials of the process
 * that mounts it, and ext4 gives the blocks that it reserves for root to any process with root's file system uid.
 */
export const writtenBy = (uid: number): string => `${WRITER_OPTION}=${uid}`
