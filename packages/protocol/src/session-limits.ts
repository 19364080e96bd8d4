/** The numbers of sessions. They stand apart from the schemas, for the supervisor's sake. */

/** The most prompts of one session that wait or run. */
export const MAX_QUEUED_PROMPTS = 100

/** The most files that come with one prompt, and the most bytes of all of them. */
export const MAX_ATTACHMENTS = 16
export const MAX_ATTACHMENT_BYTES = 8 * 1024 * 1024

/** The bound on names that an agent gives to messages, calls, tools and questions. */
export const MAX_NAME_CHARS = 256

/** The bound on a tool's input and output: only the beginning is kept. */
export const MAX_TOOL_TEXT_CHARS = 8 * 1024

/** The bound on an agent's question, and on its answer. */
export const MAX_QUESTION_CHARS = 16 * 1024
export const MAX_CHOICES = 32

export const MAX_TODOS = 200
export const MAX_TODO_CHARS = 1024

/** The longest deadline of a prompt. */
export const MAX_PROMPT_MS = 7 * 24 * 3600 * 1000
