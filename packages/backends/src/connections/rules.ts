import { createHash } from "node:crypto"
import { CLOSED_KEPT_SECONDS, type ConnectionBounds } from "./bounds.ts"

export interface ConnectionRulesInput {
  readonly table: string
  /** Matches the devices that these sandboxes' packets come from: `bt1*`. */
  readonly from: string
  /** Like `from`, for the devices of all sandboxes that share the bounds for all together. */
  readonly fromAny: string
  /** Name servers, which answer soon: questions to them are bounded by their rate alone. */
  readonly resolvers: readonly string[]
  readonly bounds: ConnectionBounds
  /**
   * The device for packets that stay on the host. Packets that leave by any other get the host's source address here.
   */
  readonly translatedUnless?: string
}

/** The name of the table that stands beside a fence's. */
export const connectionsTableOf = (fence: string): string => `${fence}_connections`

/** The most senders in a set: more than sandboxes have addresses. */
const SENDERS = 65_536

/**
 * The number of lists of connections. The kernel walks over a whole list for each new connection, so the lists are
 * short, and each takes its share by chance.
 */
const LISTS = 64

/**
 * Matches the first packet of a connection. The next packets are "new" as well until there is an answer, but stored
 * already.
 */
const OPENS = "ct state new ct status & confirmed == 0"

/**
 * The most machines that sandboxes send to directly, in a minute. Each takes one of the 1,024 entries of the kernel's
 * neighbour table.
 */
const NEIGHBOURS = 256

/**
 * The packets on closed connections, as a multiple of new connections: the kernel stores a closed connection anew with each,
 * whatever becomes of the packet. A connection that ends in order has one or two.
 */
const PACKETS_OF_CLOSED = 4

/**
 * Bounds the share of sandboxes in the tables that they share with the host. These rules stand in a table of their own,
 * apart from the fence, because the kernel counts connections in the sets: a fence that is made anew forgets none of
 * them. Each packet that would open a connection passes after the fence has let it through, and before the kernel has
 * stored the connection: a connection that is turned away here takes no place. A set that is full turns it away as
 * well. Connections that come too fast are dropped, so that the sandbox's kernel tries again by itself a little later;
 * connections that are too many are refused.
 */
const chains = (input: ConnectionRulesInput, withTimes = true): string => {
  const { from, fromAny, resolvers, bounds, translatedUnless } = input
  return `
  set opening { type ipv4_addr; flags dynamic,timeout; timeout 1m; size ${SENDERS}; }
  set holding { type ipv4_addr; flags dynamic; size ${SENDERS}; }
  set together { typeof numgen random mod ${LISTS}; flags dynamic; size ${LISTS}; }
  set neighbours { type ipv4_addr; flags dynamic,timeout; timeout 1m; size ${NEIGHBOURS}; }

  chain refuse {
    meta l4proto tcp reject with tcp reset
    meta nfproto ipv4 reject with icmp type admin-prohibited
    drop
  }
${withTimes ? closing(input) : ""}
  chain opened {
    type filter hook prerouting priority mangle + 1; policy accept;
    iifname "${from}" ${OPENS} jump of_one
    iifname "${fromAny}" ${OPENS} goto of_all
  }
  chain of_one {
    update @opening { ip saddr limit rate ${rate(bounds.sandboxPerSecond, bounds.sandboxBurst)} } goto held_by_one
    drop
  }
  chain held_by_one {
    ${isQuestion(resolvers, "return")}
    add @holding { ip saddr ct count ${bounds.sandbox} } return
    goto refuse
  }
  chain of_all {
    limit rate over ${rate(bounds.togetherPerSecond, bounds.togetherBurst)} drop
    ${isQuestion(resolvers, "accept")}
    add @together { numgen random mod ${LISTS} ct count ${Math.ceil(bounds.together / LISTS)} } accept
    goto refuse
  }
  # A machine behind a router takes no entry of its own: the router is the neighbour.
  chain passing {
    type filter hook forward priority filter + 1; policy accept;
    iifname "${from}" ${OPENS} goto to_neighbour
  }
  chain to_neighbour {
    update @neighbours { rt ip nexthop } accept
    goto refuse
  }
${translatedUnless === undefined ? "" : leaving(translatedUnless, bounds)}`
}

/**
 * Bounds the packets on connections that the kernel takes for closed. It does not count these any more, though each
 * packet makes it keep them for their whole time again, and takes a connection for closed whose other side has said
 * twice that it ends: so a sandbox and a helper outside could keep as many as they like. Beyond the bound the sandbox's
 * end is reset, after which it has nothing to send from. Such a connection is told by its time, which is the shortest of all.
 */
const closing = ({ from, fromAny, bounds }: ConnectionRulesInput): string => {
  const { sandboxPerSecond, sandboxBurst, togetherPerSecond, togetherBurst } = bounds
  const isClosed = `meta l4proto tcp ct state established ct expiration <= ${CLOSED_KEPT_SECONDS}s`
  return `
  ct timeout soon_forgotten {
    protocol tcp; l3proto ip;
    policy = { time_wait: ${CLOSED_KEPT_SECONDS}, close: ${CLOSED_KEPT_SECONDS / 2} };
  }
  set closing { type ipv4_addr; flags dynamic,timeout; timeout 1m; size ${SENDERS}; }

  chain closed {
    type filter hook prerouting priority mangle + 1; policy accept;
    iifname "${from}" ${OPENS} meta l4proto tcp ct timeout set "soon_forgotten"
    iifname "${from}" ${isClosed} jump closed_by_one
    iifname "${fromAny}" ${isClosed} limit rate over ${rate(PACKETS_OF_CLOSED * togetherPerSecond, togetherBurst)} goto refuse
  }
  chain closed_by_one {
    update @closing { ip saddr limit rate ${rate(PACKETS_OF_CLOSED * sandboxPerSecond, sandboxBurst)} } return
    goto refuse
  }
`
}

/**
 * Translates the source addresses of leaving packets before any other chain does. `opening` holds the senders that open
 * connections.
 */
const leaving = (unless: string, bounds: ConnectionBounds): string => `
  chain leaving {
    type nat hook postrouting priority srcnat - 1; policy accept;
    ${masqueradeText(`ip saddr @opening oifname != "${unless}"`, bounds)}
  }
`

const rate = (perSecond: number, burst: number) => `${perSecond}/second burst ${burst} packets`

const isQuestion = (resolvers: readonly string[], verdict: string): string =>
  resolvers.length === 0 ? "" : `ip daddr { ${resolvers.join(", ")} } udp dport 53 ${verdict}`

/** An empty chain of this name tells that the table was made from exactly these rules. */
export const connectionsMark = (input: ConnectionRulesInput): string =>
  `made_${createHash("sha256").update(chains(input)).digest("hex").slice(0, 16)}`

/**
 * The texts that replace the table, and forget all that it has counted: the next one is for a kernel that refuses the one
 * before, since it knows no times of their own for some connections (CONFIG_NF_CONNTRACK_TIMEOUT).
 */
export const connectionsTexts = (input: ConnectionRulesInput): readonly [string, string] => {
  const textOf = (withTimes: boolean) => `${dropConnectionsText(input.table)}
table inet ${input.table} {
  chain ${connectionsMark(input)} { }
${chains(input, withTimes)}}
`
  return [textOf(true), textOf(false)]
}

/** Drops the table, whether it exists or not. */
export const dropConnectionsText = (table: string): string =>
  `add table inet ${table}\ndelete table inet ${table}\n`

/** A statement that translates the source address to the host's, and the port to one that sandboxes may leave by. */
export const masqueradeText = (matching: string, { ports }: ConnectionBounds): string =>
  ports === undefined
    ? `${matching} masquerade`
    : `${matching} meta l4proto { tcp, udp } masquerade to :${ports.first}-${ports.last}
    ${matching} masquerade`
