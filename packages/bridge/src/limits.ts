/** The deadlines for the sandbox's side, which is entirely under the control of the processes inside. */
export interface Deadlines {
  /** The time from the first try to connect to the sandbox's hello. */
  readonly openMs: number
  /** How often a ping is sent. */
  readonly pingEveryMs: number
  /** The time that the pong may take while the server reads. */
  readonly pongMs: number
  /** The time that a prompt may take to be accepted: that is one write to the sandbox's disk. */
  readonly answerMs: number
}

export const DEADLINES: Deadlines = {
  openMs: 5_000,
  pingEveryMs: 5_000,
  pongMs: 10_000,
  answerMs: 15_000,
}

/** The bytes of events that are received and not yet stored. Beyond this nothing more is read. */
export const MAX_PENDING_BYTES = 1024 * 1024

/** Events that are stored at once: nothing else happens meanwhile. */
export const BATCH_EVENTS = 256

/** The bytes that the sandbox has not read. A prompt or two fit; beyond that the sandbox does not read at all. */
export const MAX_UNSENT_BYTES = 8 * 1024 * 1024

/** The server's queries without an answer. A server makes a handful at a time. */
export const MAX_OUTSTANDING = 256

/** The host requests of one sandbox: a boot with many repos, then a git now and then. */
export const HOST_REQUESTS_PER_SECOND = 10
export const BURST_HOST_REQUESTS = 64

/** The bound on the headers of an answer. A supervisor's are a few hundred bytes. */
export const MAX_HEADER_BYTES = 8 * 1024

/** The most pieces in which one message may arrive: 1 MiB in the smallest packets of a network are 800. */
export const MAX_MESSAGE_PIECES = 4096

/**
 * The rate at which a sandbox is read in the long run: far above any agent, and low enough that a flooding sandbox
 * leaves most of the server's time to the others. An event costs its bytes and a share for the work that it makes.
 */
export const BYTES_PER_SECOND = 16 * 1024 * 1024
export const BURST_BYTES = 4 * 1024 * 1024
export const EVENT_COST_BYTES = 512

/**
 * Processor time for parsing the messages of one sandbox: a tenth of a core in the long run. A thousand events take 4
 * ms, and a message of the largest size 20 ms.
 */
export const PARSE_MS_PER_SECOND = 100
export const BURST_PARSE_MS = 100
