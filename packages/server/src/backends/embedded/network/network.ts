import { isIPv4 } from "node:net"
import { isDeepStrictEqual } from "node:util"
import type { InstallationId, SandboxId } from "@berth/protocol/ids"
import type { Ipv4Range } from "@berth/protocol/network"
import { type ConnectionBounds, readBounds } from "../../connections/bounds.ts"
import { dropBarrier, ensureBarriers } from "./barrier.ts"
import { type Claim, Claims, isAttached } from "./claims.ts"
import { isLoopback } from "./ipv4.ts"
import { makeLink, removeLink } from "./link.ts"
import { type Names, namesOf } from "./names.ts"
import { DEFAULT_POOL, type Pool, poolOf } from "./pool.ts"
import { readResolvers } from "./resolvers.ts"
import { heldAddresses, readRoutes } from "./routes.ts"
import type { RulesInput } from "./rules.ts"
import { settle } from "./settle.ts"
import { SharedParts } from "./shared-parts.ts"
import { deviceExists, routeLoopback } from "./sysctl.ts"
import { createTable, type Table } from "./table.ts"

export interface Reservation {
  readonly address: string
  readonly gateway: string
  /** The name server in the sandbox's resolv.conf. */
  readonly resolver: string
}

export interface NetworkOptions {
  readonly installation: InstallationId
  /** The directory of the claims. */
  readonly directory: string
  readonly pool?: Ipv4Range
  readonly resolvers?: () => Promise<readonly string[]>
  readonly bounds?: () => ConnectionBounds
}

export const createNetwork = (options: NetworkOptions): SandboxNetwork =>
  new SandboxNetwork(options)

/**
 * The network of sandboxes with policy `open`: the internet, names, the ranges that the workspace allows, and nothing
 * else. All of it lives in the kernel, so that it works while no server runs.
 */
export class SandboxNetwork {
  readonly #names: Names
  readonly #pool: Pool
  readonly #resolvers: () => Promise<readonly string[]>
  readonly #bounds: () => ConnectionBounds
  readonly #claims: Claims
  readonly #table: Table
  readonly #shared: SharedParts
  /** The devices of sandboxes that are being detached. A device that is gone needs no shared parts. */
  readonly #departures = new Map<string, "leaving" | "gone">()

  constructor({
    installation,
    directory,
    pool = DEFAULT_POOL,
    resolvers = readResolvers,
    bounds = readBounds,
  }: NetworkOptions) {
    this.#names = namesOf(installation)
    this.#pool = poolOf(pool)
    this.#resolvers = resolvers
    this.#bounds = bounds
    this.#claims = new Claims(directory, this.#names, this.#pool)
    const rules = () => this.#rules()
    this.#table = createTable({
      rules,
      attached: () =>
        this.#claims
          .all()
          .filter(isAttached)
          .filter(({ device }) => !this.#departures.has(device)),
      onReplaced: (input) => this.#followTable(input),
    })
    this.#shared = new SharedParts({
      names: this.#names,
      pool: this.#pool,
      rules,
      table: this.#table,
    })
  }

  /**
   * Makes the parts that all sandboxes share, or those of them that have gone since; concurrent callers share one
   * attempt. Also follows the host's choice of name server.
   */
  ensure(signal: AbortSignal): Promise<void> {
    return this.#shared.ensure(signal)
  }

  /**
   * Restores rules and barriers that sandboxes need and somebody took away, as a firewall's restart does. Returns
   * whether any were missing.
   */
  async restore(signal: AbortSignal): Promise<boolean> {
    if (!this.#claims.devices().some((device) => deviceExists(device))) return false
    if (await this.#shared.stand()) return false
    await this.ensure(signal)
    return true
  }

  /** Claims an address. The same sandbox gets the same one. */
  async reserve(sandbox: SandboxId): Promise<Reservation> {
    const { address } = await this.#claim(sandbox)
    const { gateway } = this.#pool
    return { address, gateway, resolver: gateway }
  }

  /** Links the network namespace of `pid` before anything of the sandbox runs in it. Idempotent. */
  async attach(
    sandbox: SandboxId,
    pid: number,
    allow: readonly Ipv4Range[],
    signal: AbortSignal,
  ): Promise<void> {
    signal.throwIfAborted()
    const before = await this.#claim(sandbox)
    const claim = this.#claims.attach(before, allow)
    const { resolver } = await this.#rules()
    const changed = before.allow !== undefined && !isDeepStrictEqual(before.allow, claim.allow)
    const pool = this.#pool
    await settle([
      changed ? this.#table.make() : this.#table.add(claim),
      makeLink({ claim, pool, pid, loopbackResolver: isLoopback(resolver), signal }),
    ])
  }

  /** Removes everything of the sandbox, from any half-done state; with the last sandbox, also the shared parts. */
  async detach(sandbox: SandboxId, signal: AbortSignal): Promise<void> {
    const device = this.#names.deviceOf(sandbox)
    const claim = this.#claims.holder(sandbox)
    if (claim === undefined && !deviceExists(device)) return
    if (claim !== undefined && claim.sandbox !== sandbox) return
    this.#departures.set(device, "leaving")
    try {
      await settle([
        removeLink(device, signal),
        ...(claim !== undefined && isAttached(claim)
          ? [this.#table.remove(claim), dropBarrier(claim, signal)]
          : []),
      ])
      this.#departures.set(device, "gone")
      const isUnused = () => this.#isUnused()
      if (isUnused()) await this.#shared.drop(isUnused)
      // The claim goes last: a crash before this leaves something that is found by it.
      this.#claims.release(sandbox)
    } finally {
      this.#departures.delete(device)
    }
  }

  /** The sandboxes that hold a claim. */
  async list(): Promise<SandboxId[]> {
    return this.#claims.all().map(({ sandbox }) => sandbox)
  }

  async #claim(sandbox: SandboxId): Promise<Claim> {
    return this.#claims.reserve(sandbox, heldAddresses(await readRoutes()))
  }

  async #rules(): Promise<RulesInput> {
    const resolver = (await this.#resolvers()).find(isIPv4)
    return { names: this.#names, pool: this.#pool, resolver, bounds: this.#bounds() }
  }

  /** Called after each replacement of the table: barriers may be missing, and the name server may be another. */
  async #followTable({ resolver }: RulesInput): Promise<void> {
    const linked = ({ device }: Claim) => !this.#departures.has(device) && deviceExists(device)
    await ensureBarriers(this.#claims.all().filter(linked))
    for (const device of this.#claims.devices()) {
      if (deviceExists(device)) await routeLoopback(device, isLoopback(resolver))
    }
  }

  #isUnused(): boolean {
    return this.#claims.devices().every((device) => this.#departures.get(device) === "gone")
  }
}
