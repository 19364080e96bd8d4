/** The numbers of git, apart from its schemas: the supervisor loads no schema library. */

/** The most files in one status and in one list of changes. */
export const MAX_GIT_FILES = 10_000

export const MAX_GIT_COMMITS = 1_000
export const DEFAULT_GIT_COMMITS = 50
/** The bytes that are told of one commit's message. */
export const MAX_GIT_BODY_BYTES = 64 * 1024

/** The bound on the message of a new commit. */
export const MAX_GIT_MESSAGE_CHARS = 16 * 1024
export const MAX_GIT_NAME_CHARS = 256
export const MAX_GIT_PATHS = 10_000

/** The name of a commit: a branch, a tag, an id, `HEAD~2`. No range, and nothing that git takes for an option. */
export const GIT_REVISION = /^(?!-)(?!.*\.\.)[^\s\0-\x20\x7f:?*[\\]{1,255}$/

/** The states of a file in the index, and in the working tree: `.` is unchanged. */
export const GIT_LETTERS = [".", "M", "T", "A", "D", "R", "C", "U", "?"] as const
