/**
 * The numbers of the bridge. They stand apart from the schemas, so that the supervisor, whose start is on
 * every boot's path, does not load a schema library.
 */

/** Raised whenever server and supervisor of different versions could misunderstand each other. */
export const PROTOCOL_GENERATION = 1

/** One event as JSON. The supervisor records no larger one, so that one message can always carry it. */
export const MAX_EVENT_BYTES = 256 * 1024

/** One message of a supervisor: a batch of events, of which the last may be as large as an event gets. */
export const MAX_SUPERVISOR_MESSAGE_BYTES = 1024 * 1024

/** The text of one prompt. */
export const MAX_PROMPT_CHARS = 256 * 1024

/** One message of the server: a prompt of 256 Ki characters, each of which JSON may write as six bytes. */
export const MAX_SERVER_MESSAGE_BYTES = 2 * 1024 * 1024

/** Events in one message. A batch of the supervisor has 64 KiB: less than a thousand of the smallest. */
export const MAX_MESSAGE_EVENTS = 2048

/**
 * Values in a message or a document, which are counted before anything is built from it. A batch of the smallest
 * events has some 8,000, the longest boot's trace has fewer.
 */
export const MAX_MESSAGE_VALUES = 32 * 1024

/** Levels of objects and arrays in a message. The deepest of ours has six. */
export const MAX_MESSAGE_DEPTH = 16

/** Of the words that say why a prompt ended as it did, or was refused. */
export const MAX_REASON_CHARS = 4096

/** Questions of a supervisor that are said and not answered yet. One that has more waits; the server ends one that says more. */
export const MAX_PENDING_ASKS = 32

/** Commits that a question for a repo says it has: tips of branches, of which any recent one does. */
export const MAX_HAVE = 256
/** A name or an address of a person, as git has them. */
export const MAX_AUTHOR_CHARS = 256

/** Places at which the history of a shallow repo is cut: few, unless it was fetched many times by depth. */
export const MAX_SHALLOW = 1_024

/** Submodules inside of submodules: deeper ones than the deepest that people have. */
export const MAX_SUBMODULE_DEPTH = 8

/** Of a host's name with its port, and of a path on it: as long as a repo's URL may be. */
export const MAX_URL_CHARS = 2048

/** Of a user's name, and of a password: tokens of several KiB exist. */
export const MAX_CREDENTIAL_CHARS = 16 * 1024

/** Of a branch's name: git keeps it as a path. */
export const MAX_BRANCH_CHARS = 4096

/** Why a supervisor ends a bridge connection, as WebSocket close codes. */
export const CLOSE = {
  /** The sandbox is going down. */
  stopping: 4000,
  /** Another connection has said hello since. */
  replaced: 4001,
  generationMismatch: 4002,
  /** What the server has not seen is not held any more, or never was. */
  historyLost: 4003,
  protocolViolated: 4004,
  /** The journal cannot be opened or read. */
  journalUnusable: 4005,
} as const
