/**
 * The numbers of the bridge. They stand apart from the schemas, so that the supervisor, whose start is on every boot's
 * path, does not load a schema library.
 */

/** Raised whenever server and supervisor of different versions could misunderstand each other. */
export const PROTOCOL_GENERATION = 1

/** The bound on one event as JSON. The supervisor records no larger one, so that one message can always carry it. */
export const MAX_EVENT_BYTES = 256 * 1024

/** The bound on one message of a supervisor: a batch of events, of which the last may be as large as an event gets. */
export const MAX_SUPERVISOR_MESSAGE_BYTES = 1024 * 1024

/** The bound on the text of one prompt. */
export const MAX_PROMPT_CHARS = 256 * 1024

/** The bound on one message of the server: a prompt of 256 Ki characters, each of which JSON may write as six bytes. */
export const MAX_SERVER_MESSAGE_BYTES = 2 * 1024 * 1024

/** The most events in one message. A batch of the supervisor has 64 KiB: less than a thousand of the smallest. */
export const MAX_MESSAGE_EVENTS = 2048

/**
 * The most values in a message or a document, which are counted before anything is built from it. A batch of the
 * smallest events has some 8,000, the longest boot's trace has fewer.
 */
export const MAX_MESSAGE_VALUES = 32 * 1024

/** The most levels of objects and arrays in a message. Berth's deepest has six. */
export const MAX_MESSAGE_DEPTH = 16

/** The bound on the reason why a prompt ended as it did, or was refused. */
export const MAX_REASON_CHARS = 4096

/** The most unanswered questions of a supervisor. Further ones wait; the server ends a sandbox that sends more. */
export const MAX_PENDING_HOST_REQUESTS = 32

/**
 * The most commits that a question for a repo names as present: tips of branches, of which any recent one is enough.
 */
export const MAX_HAVE = 256
/** The bound on a person's name or address, as git has them. */
export const MAX_AUTHOR_CHARS = 256

/** The most commits at which the history of a shallow repo is cut: few, unless it was fetched many times by depth. */
export const MAX_SHALLOW = 1_024

/** The most levels of submodules inside of submodules: deeper than people have. */
export const MAX_SUBMODULE_DEPTH = 8

/** The bound on a host's name with its port, and on a path on it: as long as a repo's URL may be. */
export const MAX_URL_CHARS = 2048

/** The bound on a user's name, and on a password: tokens of several KiB exist. */
export const MAX_CREDENTIAL_CHARS = 16 * 1024

/** The bound on a branch's name: git keeps it as a path. */
export const MAX_BRANCH_CHARS = 4096

/** The reasons why a supervisor ends a bridge connection, as WebSocket close codes. */
export const CLOSE = {
  /** The sandbox is stopping. */
  stopping: 4000,
  /** Another connection has said hello since. */
  replaced: 4001,
  generationMismatch: 4002,
  /** The events that the server has not seen are not held any more, or never were. */
  historyLost: 4003,
  protocolViolated: 4004,
  /** The journal cannot be opened or read. */
  journalUnusable: 4005,
} as const
