import type { Gate, Hook } from "./gate.ts"
import type { Names } from "./names.ts"
import { demand } from "./tool.ts"

/** Lets iptables wait up to three seconds for its own lock, which another program may hold. */
const WAIT = ["-w", "3"]

const CHAINS = { forward: "FORWARD", input: "INPUT" } as const

/**
 * The gate (`gate.ts`) for a chain of iptables' filter table: it lets sandboxes' packets through before the chain's end
 * refuses them.
 * @param program `iptables`, or `iptables-legacy` for a chain of the older iptables, which nft does not show
 */
export const iptablesGate = (program: string, hook: Hook): Gate => {
  const chain = CHAINS[hook]
  const iptables = (...args: string[]) =>
    demand([program, ...WAIT, ...args], { signal: new AbortController().signal })

  const list = async (names: Names): Promise<Listing> =>
    parse(await iptables("-S", chain), chain, names)

  const close = async (names: Names): Promise<void> => {
    // The rules are deleted from the end, so that the numbers of those before stay right.
    for (const number of (await list(names)).ours.toReversed()) {
      await iptables("-D", chain, String(number))
    }
  }

  return {
    hook,
    close,
    async open(names) {
      const wanted = rulesOf(hook, names)
      const { refuses, ours } = await list(names)
      if (!refuses || ours.length === wanted.length) return
      await close(names)
      const { endsAt } = await list(names)
      for (const rule of wanted) await iptables("-I", chain, String(endsAt), ...rule)
    },
  }
}

/** The rules and the policy of a chain. */
interface Listing {
  /** Whether its last rule or its policy refuses all packets that come so far. */
  readonly refuses: boolean
  /** The numbers of our rules, as iptables counts them. */
  readonly ours: readonly number[]
  /** The number to insert a rule at, so that it is the last before the chain refuses. */
  readonly endsAt: number
}

/** Parses the output of `iptables -S CHAIN`: the policy, then a line for each rule. */
const parse = (text: string, chain: string, { comment }: Names): Listing => {
  const lines = text.split("\n")
  const rules = lines.filter((line) => line.startsWith(`-A ${chain} `))
  const endsInRefusal = /^-A \S+ -j (DROP|REJECT)\b/.test(rules.at(-1) ?? "")
  return {
    refuses: endsInRefusal || lines.includes(`-P ${chain} DROP`),
    ours: rules.flatMap((rule, index) => (rule.includes(`"${comment}"`) ? [index + 1] : [])),
    endsAt: rules.length + (endsInRefusal ? 0 : 1),
  }
}

/** The rules that accept packets: those of sandboxes to elsewhere, and the answers; to the host itself, DNS alone. */
const rulesOf = (hook: Hook, { devicePrefix, comment }: Names): string[][] => {
  const accept = ["-m", "comment", "--comment", comment, "-j", "ACCEPT"]
  const from = ["-i", `${devicePrefix}+`]
  return hook === "forward"
    ? [
        [...from, ...accept],
        [
          ...["-o", `${devicePrefix}+`],
          ...["-m", "conntrack", "--ctstate", "ESTABLISHED,RELATED"],
          ...accept,
        ],
      ]
    : ["udp", "tcp"].map((protocol) => [...from, "-p", protocol, "--dport", "53", ...accept])
}
