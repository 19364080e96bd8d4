/** The numbers of sessions. They stand apart from the schemas, for the supervisor's sake. */

/** Prompts of one session that wait or run. */
export const MAX_QUEUED_PROMPTS = 100

/** Files that come with one prompt, and the bytes of them all. */
export const MAX_ATTACHMENTS = 16
export const MAX_ATTACHMENT_BYTES = 8 * 1024 * 1024

/** Names that an agent gives to messages, calls, tools and questions. */
export const MAX_NAME_CHARS = 256

/** What a tool was given, and what it gave back: the beginning of it. */
export const MAX_TOOL_TEXT_CHARS = 8 * 1024

/** Of what an agent asks, and of what it is answered. */
export const MAX_QUESTION_CHARS = 16 * 1024
export const MAX_CHOICES = 32

export const MAX_TODOS = 200
export const MAX_TODO_CHARS = 1024

/** The longest that a prompt may be given. */
export const MAX_PROMPT_MS = 7 * 24 * 3600 * 1000
