import { readFile } from "node:fs/promises"
import { networkInterfaces } from "node:os"
import { type Chain, readChains } from "./chains.ts"
import type { Gate, Hook } from "./gate.ts"
import { iptablesGate } from "./iptables-gate.ts"
import { isLoopback } from "./ipv4.ts"
import type { Names } from "./names.ts"
import { nftGate } from "./nft-gate.ts"

/**
 * Opens the host's own chains for sandboxes. The input hook is opened only where the name server is the host itself.
 */
export const openHostFirewall = async (
  names: Names,
  chains: readonly Chain[],
  resolver: string | undefined,
): Promise<void> => {
  const hooks: Hook[] = isOwn(resolver) ? ["forward", "input"] : ["forward"]
  for (const gate of await gatesOf(chains)) {
    if (hooks.includes(gate.hook)) await gate.open(names)
  }
}

export const closeHostFirewall = async (names: Names): Promise<void> => {
  for (const gate of await gatesOf(await readChains())) await gate.close(names)
}

const gatesOf = async (chains: readonly Chain[]): Promise<Gate[]> => [
  ...chains.flatMap(toGate),
  ...(await legacyGates()),
]

const toGate = (chain: Chain): Gate[] => {
  const { family, table, type, hook } = chain
  if (family !== "ip" && family !== "inet") return []
  if (type !== "filter" || isOurs(table)) return []
  if (hook !== "forward" && hook !== "input") return []
  // A chain of iptables' own is changed with iptables, which no longer reads a table that nft has written to.
  return [isIptables(chain) ? iptablesGate("iptables", hook) : nftGate(chain, hook)]
}

/** Whether a table belongs to any installation of Berth. */
const isOurs = (table: string): boolean => table.startsWith("berth_")

const isIptables = ({ family, table, name }: Chain): boolean =>
  family === "ip" && table === "filter" && (name === "FORWARD" || name === "INPUT")

/** The chains of the older iptables, which nft does not show. */
const legacyGates = async (): Promise<Gate[]> => {
  const tables = await readFile("/proc/net/ip_tables_names", "utf8").catch(() => "")
  return tables.split("\n").includes("filter")
    ? [iptablesGate("iptables-legacy", "forward"), iptablesGate("iptables-legacy", "input")]
    : []
}

/** Whether the name server is this host itself. */
const isOwn = (resolver: string | undefined): boolean =>
  resolver !== undefined &&
  (isLoopback(resolver) ||
    Object.values(networkInterfaces()).some((entries) =>
      entries?.some(({ address }) => address === resolver),
    ))
