import { readFileSync } from "node:fs"

/**
 * Bounds on the connections that the kernel tracks for sandboxes. Past its own limit it drops every new one, the host's
 * included.
 */
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
  /** The ports that connections leave the host from; undefined means any. */
  readonly ports: PortRange | undefined
}

export interface PortRange {
  readonly first: number
  readonly last: number
}

/** The kernel's own choice on a host with 2 GiB of memory. Used where conntrack is not loaded yet. */
const USUAL_TRACKED = 65_536

/**
 * At most this many open connections for one sandbox: more than a browser, a package manager and a build have together.
 * Counting costs the kernel a walk over them all.
 */
const MOST_OF_ONE = 2_048

/** The kernel keeps a closed connection this long by default, and does not count it among the open ones. */
const CLOSED_KEPT_BY_DEFAULT_SECONDS = 120

/**
 * The kernel keeps a closed connection of a sandbox this long. Shorter than the time of any connection that is not
 * closed, by which rules tell the two apart; the shortest default of those is 30 s.
 */
export const CLOSED_KEPT_SECONDS = 20

/**
 * A sandbox may open connections at this fraction of the rate for all together: so a few cannot keep the others out.
 * Some kernels count each packet twice against a limit in a set (tried with 6.18), so the rate may be half of this.
 */
const SHARES_OF_RATE = 4

/**
 * The burst of a sandbox is this many times the connections that it may have open: enough to open all of them twice.
 */
const BURST_OF_ONE = 4

/**
 * Open connections take a quarter of what the kernel tracks, closed ones that it still keeps a half, and a burst of new ones
 * a sixteenth. The rest is the host's.
 */
export const boundsOf = (tracked: number, hostPorts: PortRange): ConnectionBounds => {
  const togetherPerSecond = atLeastOne(tracked / 2 / CLOSED_KEPT_BY_DEFAULT_SECONDS)
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
/** A range with fewer ports would bound sandboxes more than the other bounds do. */
const FEWEST_PORTS = 16_384

/** A range of ports that the host does not take for its own connections, so that sandboxes cannot use those up. */
const portsBeside = ({ first, last }: PortRange): PortRange | undefined =>
  [
    { first: FIRST_FREE_PORT, last: first - 1 },
    { first: last + 1, last: LAST_PORT },
  ].find((range) => range.last - range.first + 1 >= FEWEST_PORTS)

/**
 * Reads the bounds for this host from the kernel's limit of tracked connections. Synchronous, since each creation asks.
 */
export const readBounds = (): ConnectionBounds => {
  const [tracked] = readNumbers("net/netfilter/nf_conntrack_max")
  const [first = FIRST_FREE_PORT, last = LAST_PORT] = readNumbers("net/ipv4/ip_local_port_range")
  return boundsOf(tracked || USUAL_TRACKED, { first, last })
}

/** Gives no numbers where the kernel has no such setting: conntrack's setting comes with its first use. */
const readNumbers = (setting: string): number[] => {
  try {
    return [...readFileSync(`/proc/sys/${setting}`, "utf8").matchAll(/\d+/g)].map(Number)
  } catch {
    return []
  }
}

const atLeastOne = (count: number) => Math.max(1, Math.floor(count))
