import { createHash } from "node:crypto"
import type { Ipv4Range } from "@berth/protocol/network"
import type { ConnectionBounds } from "../../connections/bounds.ts"
import {
  type ConnectionRulesInput,
  connectionsTableOf,
  dropConnectionsText,
} from "../../connections/rules.ts"
import { REFUSED_RANGES } from "../../refused-ranges.ts"
import { DEVICE_MARK, type NetworkNames } from "./names.ts"

export interface RulesInput {
  readonly names: NetworkNames
  /** The ranges that may be reached beside the internet. */
  readonly allow: readonly Ipv4Range[]
  readonly resolvers: readonly string[]
}

/**
 * The fence around the network's bridge. Each packet from a sandbox is judged by the destination that it names, before
 * any address is translated, and by the one that it has after. The engine's own rules cannot let through a packet that
 * is refused here: a drop is final in whatever table it stands. An allowed range never opens the host, which is refused
 * before, nor a neighbour, which is refused after.
 */
const chains = ({ names: { device }, allow, resolvers }: RulesInput): string => {
  const asks = resolvers.map(
    (server) => `ip daddr ${server} meta l4proto { tcp, udp } th dport 53 accept`,
  )
  return `
  set refused {
    type ipv4_addr; flags interval;
    elements = { ${REFUSED_RANGES.join(", ")} }
  }
  set allowed {
    type ipv4_addr; flags interval; auto-merge;
    ${allow.length > 0 ? `elements = { ${allow.join(", ")} }` : ""}
  }
  # The sandbox hears of it at once. ICMP alone would not do: the kernel sends few of them a second.
  chain refuse {
    meta l4proto tcp reject with tcp reset
    meta nfproto ipv4 reject with icmp type admin-prohibited
    drop
  }
  # The engine asks the host's name servers from within the sandbox's network.
  chain judge {
    ${asks.join("\n    ")}
    ip daddr @allowed accept
    ip daddr @refused goto refuse
  }
  # "unicast" is neither an address of the host nor broadcast nor multicast.
  chain sent {
    type filter hook prerouting priority mangle; policy accept;
    iifname != "${device}" accept
    meta nfproto != ipv4 drop
    ${asks.join("\n    ")}
    fib daddr type != unicast goto refuse
    goto judge
  }
  chain into_host {
    type filter hook input priority filter; policy accept;
    iifname != "${device}" accept
    ${asks.join("\n    ")}
    goto refuse
  }
  # Before the engine's own rules, which would keep silent. Bridges of ours lead to neighbours.
  chain through_host {
    type filter hook forward priority filter - 1; policy accept;
    iifname "${device}" oifname "${DEVICE_MARK}*" goto refuse
    iifname "${device}" meta nfproto != ipv4 drop
    iifname "${device}" goto judge
    oifname "${device}" ct state established,related accept
    oifname "${device}" drop
  }
`
}

/** An empty chain of this name tells that the table was made from exactly these rules. */
export const markOf = (input: RulesInput): string =>
  `made_${createHash("sha256").update(chains(input)).digest("hex").slice(0, 16)}`

/** Replaces the table in one transaction: there is no moment without a fence. */
export const tableText = (input: RulesInput): string => `${dropFenceText(input.names)}
table inet ${input.names.table} {
  chain ${markOf(input)} { }
${chains(input)}}
`

/**
 * The rules that bound the connections of sandboxes through the fence. All bridges of the host share one bound for all
 * together.
 */
export const connectionsOf = (
  { names, resolvers }: RulesInput,
  bounds: ConnectionBounds,
): ConnectionRulesInput => ({
  table: connectionsTableOf(names.table),
  from: names.device,
  fromAny: `${DEVICE_MARK}*`,
  resolvers,
  bounds,
  translatedUnless: names.device,
})

/** Drops the tables, whether they exist or not. */
export const dropText = (names: Pick<NetworkNames, "table">): string =>
  dropFenceText(names) + dropConnectionsText(connectionsTableOf(names.table))

const dropFenceText = ({ table }: Pick<NetworkNames, "table">): string =>
  `add table inet ${table}\ndelete table inet ${table}\n`
