import { readFile } from "node:fs/promises"
import { isIPv4 } from "node:net"
import { networkInterfaces } from "node:os"
import { run } from "@berth/host/run"
import { BerthError } from "@berth/protocol/errors"
import type { ConnectionBounds } from "../../connections/bounds.ts"
import { forgetConnections } from "../../connections/forget.ts"
import { connectionsMark, connectionsTexts } from "../../connections/rules.ts"
import type { NetworkNames } from "./names.ts"
import { connectionsOf, dropText, markOf, type RulesInput, tableText } from "./rules.ts"

/**
 * Makes the fence and the bounds for connections, or the parts of them that have gone since. Returns whether a part was
 * missing.
 */
export const ensureFence = async (
  wanted: Pick<RulesInput, "names" | "allow">,
  bounds: ConnectionBounds,
  signal: AbortSignal,
): Promise<boolean> => {
  const rules = { ...wanted, resolvers: await readResolvers() }
  const connections = connectionsOf(rules, bounds)
  const isListed = async (...what: string[]) =>
    (await nft(["-t", "list", ...what], signal)).status === 0
  const [isFenced, isBounded] = await Promise.all([
    isListed("chain", "inet", rules.names.table, markOf(rules)),
    isListed("chain", "inet", connections.table, connectionsMark(connections)),
  ])
  if (isFenced && isBounded) return false
  const fence = isFenced ? "" : tableText(rules)
  if (isBounded) {
    await apply(fence, signal)
    return true
  }
  const isOutdated = await isListed("table", "inet", connections.table)
  const [bounding, plainly] = connectionsTexts(connections)
  const { status } = await nft(["-f", "-"], signal, fence + bounding)
  if (status !== 0) await apply(fence + plainly, signal)
  // A table that begins to count cannot count the connections that are open.
  if (!isOutdated) await forgetConnections(rangesOf(rules.names), signal)
  return true
}

/** The ranges of a network's sandboxes, which its bridge tells; none before there is one. */
const rangesOf = ({ device }: NetworkNames): string[] =>
  (networkInterfaces()[device] ?? []).flatMap(({ family, cidr }) =>
    family === "IPv4" && cidr !== null ? [cidr] : [],
  )

/** Removes the fence of a network that is gone. */
export const dropFence = (names: Pick<NetworkNames, "table">, signal: AbortSignal): Promise<void> =>
  apply(dropText(names), signal)

const apply = async (text: string, signal: AbortSignal): Promise<void> => {
  const { status, stderr } = await nft(["-f", "-"], signal, text)
  if (status !== 0) throw cannot(stderr.trim())
}

/** The reason why no fence can be made on this host; undefined where it can. */
export const whyUnfenced = async (signal: AbortSignal): Promise<string | undefined> => {
  try {
    const { status, stderr } = await nft(["list", "tables"], signal)
    return status === 0 ? undefined : stderr.trim()
  } catch (thrown) {
    signal.throwIfAborted()
    return thrown instanceof BerthError ? String(thrown.details.engineSaid) : String(thrown)
  }
}

/** Tells whether packets between two ports of a bridge pass the rules at all. */
const BRIDGED_PACKETS = "/proc/sys/net/bridge/bridge-nf-call-iptables"

/**
 * Refuses a network whose bridge the rules do not reach: the bridge is elsewhere, or the kernel does not apply them to
 * it.
 */
export const requireReach = async ({ device }: NetworkNames): Promise<void> => {
  const devices = await readFile("/proc/self/net/dev", "utf8")
  const there = devices.split("\n").some((line) => line.trim().startsWith(`${device}:`))
  if (!there) throw cannot(`the network's bridge ${device} is not on this host`)
  const asked = await readFile(BRIDGED_PACKETS, "utf8").catch(() => "0")
  if (asked.trim() !== "1") throw cannot(`${BRIDGED_PACKETS} is not 1: neighbours are not apart`)
}

const nft = async (args: readonly string[], signal: AbortSignal, input?: string) => {
  try {
    return await run(["nft", ...args], { signal, ...(input !== undefined && { input }) })
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code !== "ENOENT") throw thrown
    throw cannot("nft is not installed on this host", thrown)
  }
}

const cannot = (why: string, cause?: unknown) =>
  new BerthError("backend.unsupported", "the network `open` cannot be fenced on this host", {
    details: { engineSaid: why, supported: ["none"] },
    cause,
  })

const RESOLV_CONF = "/etc/resolv.conf"
/** Lists the servers behind systemd-resolved: the engine looks there as well. */
const SYSTEMD_UPSTREAMS = "/run/systemd/resolve/resolv.conf"

/**
 * The name servers that sandboxes reach through the engine, without those on the loopback, which the engine asks by
 * itself.
 */
const readResolvers = async (): Promise<string[]> => {
  const files = [RESOLV_CONF, SYSTEMD_UPSTREAMS]
  const texts = await Promise.all(files.map((file) => readFile(file, "utf8").catch(() => "")))
  const servers = texts
    .flatMap((text) => [...text.matchAll(/^\s*nameserver\s+(\S+)/gm)])
    .map(([, server = ""]) => server)
    .filter((server) => isIPv4(server) && !/^(127|0)\./.test(server))
  return [...new Set(servers)].sort()
}
