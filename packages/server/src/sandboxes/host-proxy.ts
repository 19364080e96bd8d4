import type { NetworkPolicy } from "@berth/protocol/network"

type Variables = Readonly<Record<string, string | undefined>>

const PROXIES = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"]
const EXCEPTIONS = "NO_PROXY"

/** The sandbox's own loopback is never asked for through a proxy. */
const LOOPBACK = ["localhost", "127.0.0.1", "::1"]

/**
 * The host's proxy as the sandboxes with network `open` get it. Programs read either case of these names, and some read one alone, so both
 * are set. What the workspace sets in either case is left to it. A proxy on the host's loopback is left out: there
 * is no way to it from a sandbox.
 */
export const proxyEnvironment = (
  host: Variables,
  own: Variables,
  { kind }: Pick<NetworkPolicy, "kind">,
): Record<string, string> => {
  if (kind !== "open") return {}
  const proxies = PROXIES.flatMap((name) => {
    const value = either(host, name)
    return value === undefined || isOnLoopback(value) ? [] : [[name, value] as const]
  })
  if (proxies.length === 0) return {}
  const exceptions = [...(either(host, EXCEPTIONS)?.split(",") ?? []), ...LOOPBACK]
  const noProxy = [...new Set(exceptions.map((entry) => entry.trim()))].filter((entry) => entry)
  const all = [...proxies, [EXCEPTIONS, noProxy.join(",")] as const]
  return Object.fromEntries(
    all
      .filter(([name]) => either(own, name) === undefined)
      .flatMap(([name, value]) => [
        [name, value],
        [name.toLowerCase(), value],
      ]),
  )
}

/** Lower case first, as curl does. An empty one is as good as none. */
const either = (variables: Variables, name: string): string | undefined =>
  variables[name.toLowerCase()] || variables[name] || undefined

/** Some write it without a scheme. */
const isOnLoopback = (proxy: string): boolean => {
  const url = URL.parse(proxy.includes("://") ? proxy : `http://${proxy}`)
  return url !== null && /^(localhost|127\.[\d.]+|\[::1\])$/i.test(url.hostname)
}
