import { readFile } from "node:fs/promises"
import { BerthError } from "@berth/protocol/errors"
import { overlaps, type Span, toAddress } from "./ipv4.ts"
import { DEVICE_MARK } from "./names.ts"
import type { Pool } from "./pool.ts"

export interface Route {
  readonly device: string
  readonly bits: number
  readonly span: Span
}

/** A route with a shorter prefix stands for the whole internet: a VPN writes its default route as two halves. */
const SHORTEST_NETWORK_BITS = 8

/** The routes of the namespace that the server runs in, from the kernel's main table. */
export const readRoutes = async (): Promise<Route[]> =>
  parseRoutes(await readFile("/proc/net/route", "utf8"))

/**
 * Parses /proc/net/route. Columns: device, destination, gateway, flags, references, use, metric, mask; numbers in host
 * byte order.
 */
export const parseRoutes = (text: string): Route[] =>
  text
    .split("\n")
    .slice(1)
    .flatMap((line) => {
      const [device, destination, , , , , , mask] = line.trim().split(/\s+/)
      if (device === undefined || destination === undefined || mask === undefined) return []
      const first = fromKernel(destination)
      const size = 2 ** 32 - fromKernel(mask)
      return [{ device, bits: 32 - Math.log2(size), span: { first, last: first + size - 1 } }]
    })

const fromKernel = (hex: string): number => Buffer.from(hex, "hex").readUInt32LE()

/** The addresses that links of any installation hold. */
export const heldAddresses = (routes: readonly Route[]): Set<string> =>
  new Set(routes.filter(isLink).map(({ span }) => toAddress(span.first)))

/** Refuses a pool with a network of the host inside: the sandboxes' routes would cut it off from the host. */
export const refuseConflict = (pool: Pool, routes: readonly Route[]): void => {
  const conflict = routes.find(
    (route) =>
      route.bits >= SHORTEST_NETWORK_BITS && !isLink(route) && overlaps(route.span, pool.span),
  )
  if (conflict === undefined) return
  const route = describeRoute(conflict)
  throw new BerthError(
    "backend.network_conflict",
    `the sandboxes' addresses ${pool.range} overlap the host's route ${route}`,
    { details: { pool: pool.range, route } },
  )
}

export const describeRoute = ({ device, bits, span }: Route): string =>
  `${toAddress(span.first)}/${bits} dev ${device}`

const isLink = ({ device, bits }: Route): boolean => bits === 32 && device.startsWith(DEVICE_MARK)
