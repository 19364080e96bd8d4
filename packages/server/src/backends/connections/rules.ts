import { createHash } from "node:crypto"
import type { ConnectionBounds } from "./bounds.ts"

export interface ConnectionRulesInput {
  readonly table: string
  /** Matches the devices that these sandboxes' packets come from: `bt1*`. */
  readonly from: string
  /** Like `from`, for the devices of all sandboxes that share the bounds for all together. */
  readonly fromAny: string
  /** Name servers, whose answers come soon: questions to them are bounded by their rate alone. */
  readonly resolvers: readonly string[]
  readonly bounds: ConnectionBounds
  /** The device that packets do not leave the host by, where their source addresses are to be translated here. */
  readonly translatedUnless?: string
}

/** The name of the table that stands beside a fence's. */
export const connectionsTableOf = (fence: string): string => `${fence}_connections`

/** More than sandboxes have addresses. */
const SENDERS = 65_536

/** The kernel walks over a whole list for each new connection: short lists, of which each takes its share by chance. */
const LISTS = 64

/** The first packet of a connection. The next ones are "new" as well until there is an answer, but stored already. */
const OPENS = "ct state new ct status & confirmed == 0"

/** Machines that sandboxes send to directly, in a minute. Each takes one of the 1,024 entries of the kernel's neighbour table. */
const NEIGHBOURS = 256

/**
 * Bounds what sandboxes have of the tables that they share with the host. It stands in a table of its own, apart from the
 * fence, because the kernel counts connections in the sets: a fence that is made anew forgets none of them.
 *
 * Each packet that would open a connection passes after the fence has let it through, and before the kernel has stored
 * the connection: one that is turned away here takes no place. A set that cannot take one more element turns it away as well.
 *
 * Connections that come too fast are dropped, so that the sandbox's kernel tries again by itself a little later; those
 * that are too many are refused.
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

/** Before anyone else translates them. Whoever opens connections is in `opening`. */
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

/** Replaces the table, with all that it has counted. */
export const connectionsText = (input: ConnectionRulesInput): string =>
  `${dropConnectionsText(input.table)}
table inet ${input.table} {
  chain ${connectionsMark(input)} { }
${chains(input)}}
`

/** Works whether the table exists or not. */
export const dropConnectionsText = (table: string): string =>
  `add table inet ${table}\ndelete table inet ${table}\n`

/** A statement that translates the source address to the host's, from the ports that sandboxes may leave by. */
export const masqueradeText = (matching: string, { ports }: ConnectionBounds): string =>
  ports === undefined
    ? `${matching} masquerade`
    : `${matching} meta l4proto { tcp, udp } masquerade to :${ports.first}-${ports.last}
    ${matching} masquerade`
