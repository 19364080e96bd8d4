import type { NetworkPolicy } from "@berth/protocol/network"

type Variables = Readonly<Record<string, string | undefined>>

const PROXIES = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"]
const EXCEPTIONS = "NO_PROXY"

/** The addresses of the sandbox's own loopback, which never go through a proxy. */
const LOOPBACK = ["localhost", "127.0.0.1", "::1"]

/**
 * The host's proxy as sandboxes with network `open` get it. Programs read either case of these names, and some read
 * only one, so both are set. A name that the workspace sets in either case is left alone. A proxy on the host's
 * loopback is left out: a sandbox cannot reach it.
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

/** Reads a variable in lower case first, as curl does. An empty value counts as none. */
const either = (variables: Variables, name: string): string | undefined =>
  variables[name.toLowerCase()] || variables[name] || undefined

/** Whether a proxy is on the host's loopback. The scheme may be missing. */
const isOnLoopback = (proxy: string): boolean => {
  const url = URL.parse(proxy.includes("://") ? proxy : `http://${proxy}`)
  return url !== null && /^(localhost|127\.[\d.]+|\[::1\])$/i.test(url.hostname)
}
