/** The directory of Berth's own files inside, whatever system is around them. */
export const BERTH_DIRECTORY = "/.berth"

/** The path of the first process inside. */
export const INIT_PATH = `${BERTH_DIRECTORY}/init`

/** The directory of the files that differ between sandboxes; links in /etc lead there. */
export const SANDBOX_FILES = `${BERTH_DIRECTORY}/etc`

/** The directory of a rootfs's own /etc; links in /etc lead there. */
export const ROOTFS_ETC = `${BERTH_DIRECTORY}/system/etc`

/** Directories that every sandbox has for itself, on disk. A mount of the config may take their place. */
export const PRIVATE_DIRECTORIES = ["/home", "/workspace"] as const

/** Directories that every sandbox has for itself, in memory. */
export const PRIVATE_TMPFS = ["/tmp", "/run", "/root", "/var"] as const
