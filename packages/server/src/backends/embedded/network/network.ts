import { isIPv4 } from "node:net"
import { isDeepStrictEqual } from "node:util"
import type { InstallationId, SandboxId } from "@berth/protocol/ids"
import type { Ipv4Range } from "@berth/protocol/network"
import { abortable } from "../../../host/abortable.ts"
import { type ConnectionBounds, readBounds } from "../../connections/bounds.ts"
import { connectionsMark } from "../../connections/rules.ts"
import { dropBarrier, ensureBarriers } from "./barrier.ts"
import { type Chain, readChains } from "./chains.ts"
import { type Claim, createClaims, isAttached } from "./claims.ts"
import { closeHostFirewall, openHostFirewall } from "./host-firewall.ts"
import { isLoopback } from "./ipv4.ts"
import { makeLink, removeLink } from "./link.ts"
import { namesOf } from "./names.ts"
import { DEFAULT_POOL, poolOf } from "./pool.ts"
import { readResolvers } from "./resolvers.ts"
import { heldAddresses, readRoutes, refuseConflict } from "./routes.ts"
import { connectionsOf, markOf, type RulesInput } from "./rules.ts"
import { settle } from "./settle.ts"
import { deviceExists, enableForwarding, routeLoopback } from "./sysctl.ts"
import { createTable } from "./table.ts"

export interface Reservation {
  readonly address: string
  readonly gateway: string
  /** The name server in the sandbox's resolv.conf. */
  readonly resolver: string
}

/**
 * The network of sandboxes with policy `open`: the internet, names, the ranges that the workspace allows, and nothing
 * else. All of it lives in the kernel, so that it works while no server runs.
 */
export interface SandboxNetwork {
  /**
   * Makes the parts that all sandboxes share, or those of them that have gone since; concurrent callers share one
   * attempt. Also follows the host's choice of name server.
   */
  ensure(signal: AbortSignal): Promise<void>
  /**
   * Restores rules and barriers that sandboxes need and somebody took away, as a firewall's restart does. Returns
   * whether any were missing.
   */
  restore(signal: AbortSignal): Promise<boolean>
  /** Claims an address. The same sandbox gets the same one. */
  reserve(sandbox: SandboxId): Promise<Reservation>
  /** Links the network namespace of `pid` before anything of the sandbox runs in it. Idempotent. */
  attach(
    sandbox: SandboxId,
    pid: number,
    allow: readonly Ipv4Range[],
    signal: AbortSignal,
  ): Promise<void>
  /** Removes everything of the sandbox, from any half-done state; with the last sandbox, also the shared parts. */
  detach(sandbox: SandboxId, signal: AbortSignal): Promise<void>
  /** The sandboxes that hold a claim. */
  list(): Promise<SandboxId[]>
}

export interface NetworkOptions {
  readonly installation: InstallationId
  /** The directory of the claims. */
  readonly directory: string
  readonly pool?: Ipv4Range
  readonly resolvers?: () => Promise<readonly string[]>
  readonly bounds?: () => ConnectionBounds
}

export const createNetwork = ({
  installation,
  directory,
  pool: range = DEFAULT_POOL,
  resolvers = readResolvers,
  bounds = readBounds,
}: NetworkOptions): SandboxNetwork => {
  const names = namesOf(installation)
  const pool = poolOf(range)
  const claims = createClaims(directory, names, pool)
  const departures = new Map<string, "leaving" | "gone">()

  const rules = async (): Promise<RulesInput> => {
    const resolver = (await resolvers()).find(isIPv4)
    return { names, pool, resolver, bounds: bounds() }
  }

  const table = createTable({
    rules,
    attached: () =>
      claims
        .all()
        .filter(isAttached)
        .filter(({ device }) => !departures.has(device)),
    async onReplaced({ resolver }) {
      await ensureBarriers(claims.all().filter(isLinked))
      for (const device of claims.devices()) {
        if (deviceExists(device)) await routeLoopback(device, isLoopback(resolver))
      }
    },
  })

  const isLinked = ({ device }: Claim) => !departures.has(device) && deviceExists(device)

  const makeShared = async (): Promise<void> => {
    refuseConflict(pool, await readRoutes())
    await enableForwarding()
    const input = await rules()
    const chains = await readChains()
    if (!stand(chains, input)) await table.make()
    await openHostFirewall(names, chains, input.resolver)
  }

  const isUnused = () => claims.devices().every((device) => departures.get(device) === "gone")

  const dropShared = async (): Promise<void> => {
    await table.drop(isUnused)
    if (isUnused()) await closeHostFirewall(names)
  }

  let attempt: Promise<void> | undefined
  const ensure = (signal: AbortSignal): Promise<void> => {
    // Assigned before the first await, so that concurrent callers share one attempt.
    attempt ??= makeShared().finally(() => {
      attempt = undefined
    })
    return abortable(attempt, signal)
  }
  const reserve = async (sandbox: SandboxId) =>
    claims.reserve(sandbox, heldAddresses(await readRoutes()))

  return {
    ensure,

    async restore(signal) {
      const isMissing = async () =>
        claims.devices().some((device) => deviceExists(device)) &&
        !stand(await readChains(), await rules())
      if (!(await isMissing())) return false
      await ensure(signal)
      return true
    },

    async reserve(sandbox) {
      const { address } = await reserve(sandbox)
      return { address, gateway: pool.gateway, resolver: pool.gateway }
    },

    async attach(sandbox, pid, allow, signal) {
      signal.throwIfAborted()
      const before = await reserve(sandbox)
      const claim = claims.attach(before, allow)
      const { resolver } = await rules()
      const changed = before.allow !== undefined && !isDeepStrictEqual(before.allow, claim.allow)
      await settle([
        changed ? table.make() : table.add(claim),
        makeLink({ claim, pool, pid, loopbackResolver: isLoopback(resolver), signal }),
      ])
    },

    async detach(sandbox, signal) {
      const device = names.deviceOf(sandbox)
      const claim = claims.holder(sandbox)
      if (claim === undefined && !deviceExists(device)) return
      if (claim !== undefined && claim.sandbox !== sandbox) return
      departures.set(device, "leaving")
      try {
        await settle([
          removeLink(device, signal),
          ...(claim !== undefined && isAttached(claim)
            ? [table.remove(claim), dropBarrier(claim, signal)]
            : []),
        ])
        departures.set(device, "gone")
        if (isUnused()) await dropShared()
        // The claim goes last: a crash before this leaves something that is found by it.
        claims.release(sandbox)
      } finally {
        departures.delete(device)
      }
    },

    list: async () => claims.all().map(({ sandbox }) => sandbox),
  }
}

/** Whether both tables stand, made from exactly these rules. */
const stand = (chains: readonly Chain[], input: RulesInput): boolean => {
  const connections = connectionsOf(input)
  const marks = [
    { table: input.names.table, mark: markOf(input) },
    { table: connections.table, mark: connectionsMark(connections) },
  ]
  return marks.every(({ table, mark }) =>
    chains.some((chain) => chain.table === table && chain.name === mark),
  )
}
