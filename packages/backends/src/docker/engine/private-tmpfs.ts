/** The directories that every sandbox has for itself in memory, with their modes. */
export const PRIVATE_TMPFS = { "/tmp": "1777", "/run": "0755", "/root": "0700", "/var/tmp": "1777" }
