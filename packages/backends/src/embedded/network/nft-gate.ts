import { type Chain, type Rule, readRules } from "./chains.ts"
import type { Gate, Hook } from "./gate.ts"
import type { Names } from "./names.ts"
import { demand } from "./tool.ts"

/** A chain that its owner writes with nft itself. */
export const nftGate = (chain: Chain, hook: Hook): Gate => {
  const path = `${chain.family} ${chain.table} ${chain.name}`
  const ours = (rules: readonly Rule[], { comment }: Names) =>
    rules.filter((rule) => rule.comment === comment)
  const remove = (rules: readonly Rule[]) =>
    rules.map(({ handle }) => `delete rule ${path} handle ${handle}\n`)

  return {
    hook,
    async close(names) {
      await apply(remove(ours(await readRules(chain), names)))
    },
    async open(names) {
      const wanted = rulesOf(hook, names)
      const rules = await readRules(chain)
      const present = ours(rules, names)
      const last = rules.at(-1)
      const refusal = last !== undefined && isRefusal(last) ? last : undefined
      if (refusal === undefined && chain.policy !== "drop") return
      if (present.length === wanted.length) return
      const place =
        refusal === undefined ? `add rule ${path}` : `insert rule ${path} handle ${refusal.handle}`
      await apply([...remove(present), ...wanted.map((rule) => `${place} ${rule}\n`)])
    },
  }
}

const apply = async (commands: readonly string[]): Promise<void> => {
  if (commands.length === 0) return
  await demand(["nft", "-f", "-"], {
    signal: new AbortController().signal,
    input: commands.join(""),
  })
}

/** Whether a rule refuses every packet that comes to it. */
const isRefusal = ({ expr }: Rule): boolean => {
  const telling = expr.flatMap(Object.keys).filter((key) => key !== "counter" && key !== "log")
  return telling.length === 1 && (telling[0] === "drop" || telling[0] === "reject")
}

const rulesOf = (hook: Hook, { devicePrefix, comment }: Names): string[] => {
  const accept = `accept comment "${comment}"`
  const from = `iifname "${devicePrefix}*"`
  return hook === "forward"
    ? [`${from} ${accept}`, `oifname "${devicePrefix}*" ct state established,related ${accept}`]
    : [`${from} meta l4proto { tcp, udp } th dport 53 ${accept}`]
}
