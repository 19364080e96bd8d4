import { readFile } from "node:fs/promises"
import { isIPv4 } from "node:net"
import { isLoopback } from "./ipv4.ts"

/** The host's own choice of name servers. */
const RESOLV_CONF = "/etc/resolv.conf"
/**
 * Lists the servers behind systemd-resolved, whose own listener takes only packets that come in by the loopback device.
 */
const SYSTEMD_UPSTREAMS = "/run/systemd/resolve/resolv.conf"

/** The host's name servers, best first. Only IPv4: a sandbox has no other way out. */
export const readResolvers = async (): Promise<string[]> =>
  chooseResolvers(await readOptional(RESOLV_CONF), await readOptional(SYSTEMD_UPSTREAMS))

/** Keeps the host's own order, unless it begins on the loopback and a server beyond it is known. */
export const chooseResolvers = (resolvConf: string, systemd: string): string[] => {
  const own = parseResolvConf(resolvConf)
  if (!isLoopback(own[0])) return own
  return [...parseResolvConf(systemd).filter((server) => !isLoopback(server)), ...own]
}

export const parseResolvConf = (text: string): string[] =>
  text.split("\n").flatMap((line) => {
    const [keyword, server] = line.trim().split(/\s+/)
    if (keyword !== "nameserver" || server === undefined || !isIPv4(server)) return []
    return [server === "0.0.0.0" ? "127.0.0.1" : server]
  })

const readOptional = async (path: string): Promise<string> => {
  try {
    return await readFile(path, "utf8")
  } catch {
    // A host without this file has no name servers in it.
    return ""
  }
}
