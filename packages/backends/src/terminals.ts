/** The terminals that a sandbox can have open. The host has 4,096 (`kernel.pty.max`) for all, and keeps 1,024 of them for itself. */
export const MAX_TERMINALS = 256
