/** The numbers of the files feature, apart from its schemas: the supervisor loads no schema library. */

/** Longer paths are refused by the kernel (PATH_MAX). */
export const MAX_FILE_PATH_BYTES = 4095

/** The most entries in one listing. */
export const MAX_LIST_ENTRIES = 10_000
export const MAX_LIST_DEPTH = 64

/** The most files in one `POST /files/write`; their contents have room in one JSON body. */
export const MAX_WRITE_FILES = 1_000

/** The most results of one search, unless it asks for fewer. */
export const MAX_SEARCH_RESULTS = 10_000
export const DEFAULT_SEARCH_RESULTS = 1_000
/** The bytes that are sent of a matching line. */
export const MAX_LINE_BYTES = 2_048
export const MAX_PATTERN_CHARS = 4_096

/** The most names that a watch may leave out. */
export const MAX_IGNORED_NAMES = 100
/** The names that a watch leaves out by default: they change in bursts, and hold most directories of a tree. */
export const DEFAULT_IGNORED_NAMES = [".git", "node_modules"] as const
/** The most changes that a watch keeps for a client that does not read; beyond that it reports that some were lost. */
export const MAX_PENDING_CHANGES = 4_096
