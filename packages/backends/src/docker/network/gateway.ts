import { isIPv4 } from "node:net"
import { networkInterfaces } from "node:os"
import { setTimeout as pause } from "node:timers/promises"
import { run } from "@berth/host/run"
import { BerthError } from "@berth/protocol/errors"
import { z } from "zod"
import { REFUSED_RANGES } from "../../refused-ranges.ts"
import { type Engine, parseAnswer } from "../engine/engine.ts"
import type { RulesInput } from "./rules.ts"

const Container = z.object({
  State: z.object({ Running: z.boolean(), Pid: z.int() }),
  NetworkSettings: z.object({
    Networks: z.record(z.string(), z.object({ Gateway: z.string(), IPAddress: z.string() })),
  }),
})

/**
 * The time that the rules may take. Others change the rules of a namespace as well, an engine may tell of an address
 * before it is there, and may take a while to see that a container has ended.
 */
const KEEP_WITHIN_MS = 3_000
const TRY_AGAIN_MS = 100

/** The most characters of a program's words that an error carries. */
const MAX_WORDS = 500

/**
 * Lets a container send to its gateway alone, and bounds what the kernel tracks, by rules inside its own network
 * namespace. Each address that a container sends to directly takes an entry of the kernel's neighbour table, which all
 * namespaces of the host share. Routes would not do: SO_BINDTODEVICE with SO_DONTROUTE leads around them, and takes no
 * privilege. The rules go with the namespace.
 */
export const keepToGateway = async (
  engine: Engine,
  engineId: string,
  wanted: Pick<RulesInput, "names" | "allow">,
  signal: AbortSignal,
): Promise<void> => {
  const endsAt = performance.now() + KEEP_WITHIN_MS
  for (;;) {
    const found = await running(engine, engineId, signal)
    if (found === undefined) return
    const why = await setRules(found, wanted, signal)
    if (why === undefined) return
    if (performance.now() > endsAt) throw failed(why, engineId)
    await pause(TRY_AGAIN_MS, undefined, { signal })
  }
}

/** Returns why the rules could not be set; undefined: they stand. */
const setRules = async (
  { State, NetworkSettings }: z.infer<typeof Container>,
  { names: { network }, allow }: Pick<RulesInput, "names" | "allow">,
  signal: AbortSignal,
): Promise<string | undefined> => {
  const { Gateway = "", IPAddress = "" } = NetworkSettings.Networks[network] ?? {}
  if (!isIPv4(Gateway) || !isIPv4(IPAddress)) return "it has no gateway"
  const command = [
    "nsenter",
    `--net=/proc/${State.Pid}/ns/net`,
    "sh",
    "-c",
    IN_THE_RIGHT_NAMESPACE,
    IPAddress,
  ] as const
  const fence = { allow, host: hostAddresses() }
  const { status, stderr } = await run(command, { signal, input: rulesText(Gateway, fence) })
  if (status === 0) return undefined
  return stderr.trim().slice(0, MAX_WORDS) || `nft ended with status ${status}`
}

/**
 * Checks that the namespace has the container's address: the process may have ended, and its pid be another's, and
 * these rules would take any other namespace off the network.
 */
const IN_THE_RIGHT_NAMESPACE = `
  grep -qwF "$0" /proc/self/net/fib_trie || { echo "its namespace lacks the address $0" >&2; exit 1; }
  exec nft -f -`

/** The table of family inet that stands in the namespace of each container. */
export const GATEWAY_TABLE = "berth_gateway"

/** The engine's name server for containers, which it runs in the namespace of each. */
const RESOLVER = "127.0.0.11"

/**
 * Bounds on questions to the name server that the kernel tracks at a time. Over UDP, each is tracked for half a minute.
 * Over TCP, each takes an open file of the engine's own process, which all of its containers share; a closed one is
 * tracked for two minutes and not counted, so that its rate is bounded as well.
 */
export const RESOLVER_BOUNDS = { udp: 4_096, tcp: 64, tcpPerSecond: 16, tcpBurst: 256 } as const

const OPENS = "ct state new ct status & confirmed == 0"

/**
 * The rules inside. Multicast stays as it is: it reaches nobody, and the kernel gives its entries up for any other. A
 * TCP connection would wait for minutes without a refusal, and the last hook cannot refuse. The engine translates
 * addresses inside, for its name server, which makes the kernel track every connection there, in memory that no limit
 * counts. So all packets but questions to that server are left untracked, and those questions are bounded.
 */
const rulesText = (gateway: string, fence: InnerFence): string => {
  const direct = `oifname != "lo" ip daddr != 224.0.0.0/4 rt ip nexthop != ${gateway}`
  const { udp, tcp, tcpPerSecond, tcpBurst } = RESOLVER_BOUNDS
  return `add table inet ${GATEWAY_TABLE}
delete table inet ${GATEWAY_TABLE}
table inet ${GATEWAY_TABLE} {
  chain arriving {
    type filter hook prerouting priority raw; policy accept;
    iifname != "lo" notrack
  }
  chain sending {
    type filter hook output priority raw; policy accept;
    oifname "lo" meta l4proto { tcp, udp } ip daddr ${RESOLVER} accept
    oifname "lo" meta l4proto { tcp, udp } ip saddr ${RESOLVER} accept
    notrack
  }
  chain refuse {
    meta l4proto tcp reject with tcp reset
    reject with icmp type admin-prohibited
  }
  set refused {
    type ipv4_addr; flags interval; auto-merge;
    elements = { ${REFUSED_RANGES.join(", ")} }
  }
  chain fence {
    ${fenceRules(fence).join("\n    ")}
  }
  chain sent {
    type filter hook output priority filter; policy accept;
    ${direct} goto refuse
    oifname != "lo" jump fence
    ${OPENS} meta l4proto tcp limit rate over ${tcpPerSecond}/second burst ${tcpBurst} packets goto refuse
    ${OPENS} meta l4proto tcp ct count over ${tcp} goto refuse
    ${OPENS} meta l4proto udp ct count over ${udp} goto refuse
  }
  chain leaving {
    type filter hook postrouting priority filter; policy accept;
    ${direct} drop
  }
}
`
}

/**
 * The part of the fence that also stands inside, so that it does not rest on the host's rules alone, which people
 * flush.
 */
interface InnerFence {
  readonly allow: readonly string[]
  /** The host's addresses when the container was started. */
  readonly host: readonly string[]
}

/**
 * The fence's rules inside. Port 53 is left to the rules outside: the name servers that the engine asks from within
 * change while the container runs.
 */
const fenceRules = ({ allow, host }: InnerFence): string[] => [
  "meta l4proto { tcp, udp } th dport 53 return",
  ...host.map((address) => `ip daddr ${address} goto refuse`),
  ...allow.map((range) => `ip daddr ${range} return`),
  "ip daddr @refused goto refuse",
]

const hostAddresses = (): string[] => [
  ...new Set(
    Object.values(networkInterfaces())
      .flatMap((entries) => entries ?? [])
      .filter(({ family }) => family === "IPv4")
      .map(({ address }) => address),
  ),
]

/** Inspects the container; undefined if it has ended or is gone. */
const running = async (engine: Engine, engineId: string, signal: AbortSignal) => {
  const request = { method: "GET", path: `/containers/${engineId}/json` } as const
  const answer = await engine.ask(request, [200, 404], signal)
  if (answer.status === 404) return undefined
  const found = parseAnswer(request, answer, Container)
  return found.State.Running ? found : undefined
}

const failed = (why: string, engineId: string) =>
  new BerthError("backend.engine_failed", `the container cannot be kept to its gateway: ${why}`, {
    details: { container: engineId, engineSaid: why },
  })
