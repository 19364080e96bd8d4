import { readFileSync } from "node:fs"

/** How many connections the kernel may track for sandboxes. Past its own limit it drops every new one, the host's included. */
export interface ConnectionBounds {
  /** Connections of one sandbox that are open, or wait for an answer, at a time. */
  readonly sandbox: number
  /** New connections of one sandbox in a second, once it has used up the burst. */
  readonly sandboxPerSecond: number
  readonly sandboxBurst: number
  /** Like `sandbox`, for all sandboxes that share the rules. */
  readonly together: number
  readonly togetherPerSecond: number
  readonly togetherBurst: number
  /** The ports that connections leave the host from; undefined: any. */
  readonly ports: PortRange | undefined
}

export interface PortRange {
  readonly first: number
  readonly last: number
}

/** The kernel's own choice on a host with 2 GiB of memory, taken where conntrack is not loaded yet. */
const USUAL_TRACKED = 65_536

/** More than a browser, a package manager and a build have open together. Counting costs the kernel a walk over them all. */
const MOST_OF_ONE = 2_048

/** The kernel keeps a closed connection this long, and counts it among the tracked but not among the open ones. */
const CLOSED_KEPT_SECONDS = 120

/**
 * The rate of a sandbox is a part of what all together may open in a second: a few cannot keep the others out. Some kernels count
 * each packet twice against a limit in a set (tried with 6.18), so it may be half of this.
 */
const SHARES_OF_RATE = 4

/** A burst is as long as it takes to have all connections open that one may have, twice. */
const BURST_OF_ONE = 4

/**
 * Open connections take a quarter of what the kernel tracks, closed ones that it still keeps a half, and a burst of new ones
 * a sixteenth. The rest is the host's.
 */
export const boundsOf = (tracked: number, hostPorts: PortRange): ConnectionBounds => {
  const togetherPerSecond = atLeastOne(tracked / 2 / CLOSED_KEPT_SECONDS)
  const sandbox = Math.min(MOST_OF_ONE, atLeastOne(tracked / 128))
  return {
    sandbox,
    sandboxPerSecond: atLeastOne(togetherPerSecond / SHARES_OF_RATE),
    sandboxBurst: sandbox * BURST_OF_ONE,
    together: atLeastOne(tracked / 4),
    togetherPerSecond,
    togetherBurst: atLeastOne(tracked / 16),
    ports: portsBeside(hostPorts),
  }
}

const FIRST_FREE_PORT = 1_024
const LAST_PORT = 65_535
/** Fewer ports would bound sandboxes more than the rest does. */
const FEWEST_PORTS = 16_384

/** Ports that the host does not take for connections of its own, so that sandboxes cannot use those up. */
const portsBeside = ({ first, last }: PortRange): PortRange | undefined =>
  [
    { first: FIRST_FREE_PORT, last: first - 1 },
    { first: last + 1, last: LAST_PORT },
  ].find((range) => range.last - range.first + 1 >= FEWEST_PORTS)

/** The bounds for this host, from what its kernel tracks at most. Read synchronously: each creation asks. */
export const readBounds = (): ConnectionBounds => {
  const [tracked] = readNumbers("net/netfilter/nf_conntrack_max")
  const [first = FIRST_FREE_PORT, last = LAST_PORT] = readNumbers("net/ipv4/ip_local_port_range")
  return boundsOf(tracked || USUAL_TRACKED, { first, last })
}

/** No numbers where the kernel has no such setting: that of conntrack comes with its first use. */
const readNumbers = (setting: string): number[] => {
  try {
    return [...readFileSync(`/proc/sys/${setting}`, "utf8").matchAll(/\d+/g)].map(Number)
  } catch {
    return []
  }
}

const atLeastOne = (count: number) => Math.max(1, Math.floor(count))
