/** A range that no installation has: those begin at 0x70010000. */
export const ID_BASE = 0x6fff_0000

/** The user that works in a sandbox, and what its first directory is like. */
export const AGENT = { uid: 1000, gid: 1000, mode: 0o755 }
