import { BerthError } from "@berth/protocol/errors"
import type { Ipv4Range } from "@berth/protocol/network"
import { type Span, spanOf, toAddress } from "./ipv4.ts"

/**
 * Sandboxes have addresses in the first half of the range for benchmarks of networks: no network routes it, while the
 * private ranges are in use by offices, VPNs and other engines. It holds 65,533 sandboxes.
 */
export const DEFAULT_POOL: Ipv4Range = "198.18.0.0/16"

/** The smallest pool has addresses for the network, the gateway, one sandbox and broadcast. */
const SMALLEST = 4

export interface Pool {
  readonly range: Ipv4Range
  readonly span: Span
  /**
   * The host's end of every sandbox's veth, and the name server that sandboxes ask. Each veth has the
   * host on one side and one sandbox on the other, so one address serves all of them.
   */
  readonly gateway: string
  /** The addresses that sandboxes can have. */
  readonly addresses: Span
}

export const poolOf = (range: Ipv4Range): Pool => {
  const span = spanOf(range)
  if (span.last - span.first + 1 < SMALLEST) {
    throw new BerthError("config.invalid", `the address pool ${range} is too small`, {
      details: { pool: range, smallest: "/30" },
    })
  }
  return {
    range,
    span,
    gateway: toAddress(span.first + 1),
    addresses: { first: span.first + 2, last: span.last - 1 },
  }
}
