import { createHash } from "node:crypto"
import type { ConnectionBounds } from "../../connections/bounds.ts"
import {
  type ConnectionRulesInput,
  dropConnectionsText,
  masqueradeText,
} from "../../connections/rules.ts"
import { REFUSED_RANGES } from "../../refused-ranges.ts"
import { PASSED_MARK } from "./barrier.ts"
import { merge, spanOf, toText } from "./ipv4.ts"
import type { Names } from "./names.ts"
import type { Pool } from "./pool.ts"
import type { Attached } from "./reservations.ts"

export interface RulesInput {
  readonly names: Names
  readonly pool: Pool
  /** The host's name server, if it has one that can be reached over IPv4. */
  readonly resolver: string | undefined
  readonly bounds: ConnectionBounds
}

const DNS = "meta l4proto { tcp, udp } th dport 53"

/** Matches packets from a sandbox's device. */
const fromSandbox = ({ devicePrefix }: Names) => `iifname "${devicePrefix}*"`

/** Matches packets from any other device. */
const fromOther = ({ devicePrefix }: Names) => `iifname != "${devicePrefix}*"`

/** Matches packets of a question to the host's name server that a sandbox has asked its gateway. */
const isAsked = ({ gateway }: Pool) => `ct status dnat ct original ip daddr ${gateway} ${DNS}`

/** The ranges that are refused, and the elements of each sandbox. */
const SETS = `
  set refused {
    type ipv4_addr; flags interval;
    elements = { ${merge(REFUSED_RANGES.map(spanOf)).map(toText).join(", ")} }
  }
  set sources { type ifname . ipv4_addr; }
  set allowed { type ifname . ipv4_addr; flags interval; }
`

/** How a packet is refused, and which destinations are. */
const judging = ({ pool }: RulesInput): string => `
  # The sandbox hears of it at once. ICMP alone would not do: the kernel sends few of them a second.
  chain refuse {
    meta l4proto tcp reject with tcp reset
    meta nfproto ipv4 reject with icmp type admin-prohibited
    drop
  }
  # Neighbours are refused before what is allowed: no workspace opens another sandbox.
  chain judge {
    ip daddr ${pool.range} goto refuse
    iifname . ip daddr @allowed accept
    ip daddr @refused goto refuse
    accept
  }`

/** Packets on their arrival from a sandbox, before any address is translated. */
const arriving = ({ names, pool, resolver }: RulesInput): string => `
  # "unicast" is neither an address of the host nor broadcast nor multicast.
  chain sent {
    type filter hook prerouting priority mangle; policy accept;
    ${fromOther(names)} accept
    meta nfproto != ipv4 drop
    iifname . ip saddr != @sources drop
    ${resolver === undefined ? "" : `ip daddr ${pool.gateway} ${DNS} accept`}
    fib daddr type != unicast goto refuse
    goto judge
  }
  # The last word before the route is chosen, so that no rule of the host's takes the mark away: without it, the kernel drops
  # the packet (see barrier.ts).
  chain passed {
    type filter hook prerouting priority 300; policy accept;
    ${fromSandbox(names)} meta mark set meta mark | ${PASSED_MARK}
  }`

/** The way of a question to the host's name server. */
const asking = ({ names, pool, resolver }: RulesInput): string => `
  # Before the host's own translations, which may take every packet to port 53.
  chain ask {
    type nat hook prerouting priority dstnat - 10; policy accept;
    ${resolver === undefined ? "" : `${fromSandbox(names)} ip daddr ${pool.gateway} ${DNS} dnat ip to ${resolver}`}
  }
  # A name server on the host itself is asked from its own address, as by any program of the host:
  # many answer nobody else. 100 is where source addresses are translated.
  chain ask_locally {
    type nat hook input priority 100; policy accept;
    ${resolver === undefined ? "" : `${fromSandbox(names)} ${isAsked(pool)} snat ip to ${resolver}`}
  }`

/** Packets into the host and through it, after their addresses are translated. */
const passing = ({ names, pool }: RulesInput): string => `
  chain into_host {
    type filter hook input priority filter; policy accept;
    ${fromOther(names)} accept
    ${isAsked(pool)} accept
    goto refuse
  }
  chain through_host {
    type filter hook forward priority filter; policy accept;
    ${fromSandbox(names)} goto from_sandbox
    oifname "${names.devicePrefix}*" goto to_sandbox
  }
  chain from_sandbox {
    meta nfproto != ipv4 drop
    ${isAsked(pool)} accept
    goto judge
  }
  chain to_sandbox {
    ct direction reply ct state established,related accept
    drop
  }`

/** Packets that leave for the internet. */
const leaving = ({ names, pool, bounds }: RulesInput): string => `
  chain leave {
    type nat hook postrouting priority srcnat; policy accept;
    ${masqueradeText(`ip saddr ${pool.range} oifname != "${names.devicePrefix}*"`, bounds)}
  }
`

/**
 * The whole fence. The chains never change; a sandbox is one element in `sources` and one in `allowed` per range.
 * Packets of our devices are matched by the name's prefix, so a veth whose element is missing reaches nothing at all.
 * Each packet from a sandbox is judged twice: by the destination that it names, before any address is translated, and
 * by the one that it has after, so that no translation of the host's own leads around. Established connections get no
 * shortcut: addresses are used again, and an old connection must not outlive its rules.
 */
const chains = (input: RulesInput): string =>
  [SETS, judging(input), arriving(input), asking(input), passing(input), leaving(input)].join("")

/** The rules that bound the connections of sandboxes through the fence. Sandboxes ask the gateway for names. */
export const connectionsOf = ({ names, pool, bounds }: RulesInput): ConnectionRulesInput => ({
  table: names.connectionsTable,
  from: `${names.devicePrefix}*`,
  fromAny: `${names.devicePrefix}*`,
  resolvers: [pool.gateway],
  bounds,
})

/** An empty chain of this name tells that the table was made from exactly these rules. */
export const markOf = (input: RulesInput): string =>
  `made_${createHash("sha256").update(chains(input)).digest("hex").slice(0, 16)}`

/** Replaces the table in one transaction: there is no moment without a fence. */
export const tableText = (input: RulesInput, attached: readonly Attached[]): string =>
  `${dropFenceText(input.names)}
table inet ${input.names.table} {
  chain ${markOf(input)} { }
${chains(input)}}
${attached.map((reservation) => addText(input.names, reservation)).join("")}`

/** Drops the tables, whether they exist or not. */
export const dropText = (names: Names): string =>
  dropFenceText(names) + dropConnectionsText(names.connectionsTable)

const dropFenceText = ({ table }: Names): string =>
  `add table inet ${table}\ndelete table inet ${table}\n`

export const addText = (names: Names, reservation: Attached): string =>
  elements("add", names, reservation)

export const deleteText = (names: Names, reservation: Attached): string =>
  elements("delete", names, reservation)

const elements = (verb: string, { table }: Names, { device, address, allow }: Attached): string => {
  const ranges = merge(allow.map(spanOf)).map((span) => `"${device}" . ${toText(span)}`)
  return [
    `${verb} element inet ${table} sources { "${device}" . ${address} }\n`,
    ranges.length > 0 && `${verb} element inet ${table} allowed { ${ranges.join(", ")} }\n`,
  ]
    .filter((line) => line !== false)
    .join("")
}
