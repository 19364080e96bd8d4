/**
 * How much a boot trace may say. They stand apart from the schemas, so that the supervisor, which clips
 * what it records, does not load a schema library at its start.
 */
export const MAX_BOOT_STEPS = 64
export const MAX_STEP_NAME_CHARS = 128
/** Of a detail, a reason or a warning; an error's words may hold a compiler's output. */
export const MAX_BOOT_TEXT_CHARS = 4096
/** Of one step's last output, and of one piece of live output. */
export const MAX_LAST_OUTPUT_CHARS = 16 * 1024
export const MAX_BOOT_WARNINGS = 256
export const MAX_STEP_FACTS = 64
