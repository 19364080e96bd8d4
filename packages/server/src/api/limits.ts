/** What one request may cost. */
export interface Limits {
  readonly bodyBytes: number
  /** From the first byte of a request to its last. */
  readonly receiveMs: number
  /** From a request to its reply, unless its route sets its own. */
  readonly handleMs: number
  /** How often a stream of events says that it is still there. */
  readonly heartbeatMs: number
}

export const DEFAULT_LIMITS: Limits = {
  // Prompts and specs are text that people write; files travel in requests of their own.
  bodyBytes: 1024 * 1024,
  // Clients are on this machine: a request that takes longer to arrive is stuck.
  receiveMs: 10_000,
  handleMs: 30_000,
  // Proxies end what is silent for a minute; some for half of one.
  heartbeatMs: 15_000,
}
