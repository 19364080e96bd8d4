import { createHash } from "node:crypto"
import type { ConnectionBounds } from "./bounds.ts"

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
 * Bounds the share of sandboxes in the tables that they share with the host. These rules stand in a table of their own,
 * apart from the fence, because the kernel counts connections in the sets: a fence that is made anew forgets none of
 * them. Each packet that would open a connection passes after the fence has let it through, and before the kernel has
 * stored the connection: a connection that is turned away here takes no place. A set that is full turns it away as
 * well. Connections that come too fast are dropped, so that the sandbox's kernel tries again by itself a little later;
 * connections that are too many are refused.
 */
const chains = ({
  from,
  fromAny,
  resolvers,
  bounds,
  translatedUnless,
}: ConnectionRulesInput): string => `
  set opening { type ipv4_addr; flags dynamic,timeout; timeout 1m; size ${SENDERS}; }
  set holding { type ipv4_addr; flags dynamic; size ${SENDERS}; }
  set together { typeof numgen random mod ${LISTS}; flags dynamic; size ${LISTS}; }
  set neighbours { type ipv4_addr; flags dynamic,timeout; timeout 1m; size ${NEIGHBOURS}; }

  chain refuse {
    meta l4proto tcp reject with tcp reset
    meta nfproto ipv4 reject with icmp type admin-prohibited
    drop
  }
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

/** Replaces the table, and forgets all that it has counted. */
export const connectionsText = (input: ConnectionRulesInput): string =>
  `${dropConnectionsText(input.table)}
table inet ${input.table} {
  chain ${connectionsMark(input)} { }
${chains(input)}}
`

/** Drops the table, whether it exists or not. */
export const dropConnectionsText = (table: string): string =>
  `add table inet ${table}\ndelete table inet ${table}\n`

/** A statement that translates the source address to the host's, and the port to one that sandboxes may leave by. */
export const masqueradeText = (matching: string, { ports }: ConnectionBounds): string =>
  ports === undefined
    ? `${matching} masquerade`
    : `${matching} meta l4proto { tcp, udp } masquerade to :${ports.first}-${ports.last}
    ${matching} masquerade`
