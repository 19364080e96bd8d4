/** The limits on one request. */
export interface Limits {
  readonly bodyBytes: number
  /** The time from the first byte of a request to its last. */
  readonly receiveMs: number
  /** The time from a request to its reply, unless its route sets its own. */
  readonly handleMs: number
  /** How often an event stream sends a heartbeat. */
  readonly heartbeatMs: number
}

export const DEFAULT_LIMITS: Limits = {
  // Prompts and specs are text that people write; files travel in requests of their own.
  bodyBytes: 1024 * 1024,
  // Clients are on this machine: a request that takes longer to arrive is stuck.
  receiveMs: 10_000,
  handleMs: 30_000,
  // Proxies end connections that are silent for a minute; some for half of one.
  heartbeatMs: 15_000,
}
