/** A range that no installation has: their ranges begin at 0x70010000. */
export const ID_BASE = 0x6fff_0000

/** The user that works in a sandbox, and the mode of its root directory. */
export const AGENT = { uid: 1000, gid: 1000, mode: 0o755 }
