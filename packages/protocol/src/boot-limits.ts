/**
 * The bounds on a boot trace. They stand apart from the schemas, so that the supervisor, which clips its records to
 * them, does not load a schema library at its start.
 */
export const MAX_BOOT_STEPS = 64
export const MAX_STEP_NAME_CHARS = 128
/** The bound on a detail, a reason or a warning; an error message may hold a compiler's output. */
export const MAX_BOOT_TEXT_CHARS = 4096
/** The bound on one step's last output, and on one piece of live output. */
export const MAX_LAST_OUTPUT_CHARS = 16 * 1024
export const MAX_BOOT_WARNINGS = 256
export const MAX_STEP_FACTS = 64
