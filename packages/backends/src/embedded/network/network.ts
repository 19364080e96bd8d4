import { isIPv4 } from "node:net"
import { isDeepStrictEqual } from "node:util"
import type { InstallationId, SandboxId } from "@berth/protocol/ids"
import type { Ipv4Range } from "@berth/protocol/network"
import { type ConnectionBounds, readBounds } from "../../connections/bounds.ts"
import { dropBarrier, ensureBarriers } from "./barrier.ts"
import { isLoopback } from "./ipv4.ts"
import { type Names, namesOf } from "./names.ts"
import { DEFAULT_POOL, type Pool, poolOf } from "./pool.ts"
import { isAttached, type Reservation, Reservations } from "./reservations.ts"
import { readResolvers } from "./resolvers.ts"
import { heldAddresses, readRoutes } from "./routes.ts"
import type { RulesInput } from "./rules.ts"
import { settle } from "./settle.ts"
import { SharedParts } from "./shared-parts.ts"
import { deviceExists, routeLoopback } from "./sysctl.ts"
import { createTable, type Table } from "./table.ts"
import { makeVeth, removeVeth } from "./veth.ts"

export interface ReservedAddress {
  readonly address: string
  readonly gateway: string
  /** The name server in the sandbox's resolv.conf. */
  readonly resolver: string
}

export interface NetworkOptions {
  readonly installation: InstallationId
  /** The directory of the reservations. */
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
  readonly #reservations: Reservations
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
    this.#reservations = new Reservations(directory, this.#names, this.#pool)
    const rules = () => this.#rules()
    this.#table = createTable({
      rules,
      attached: () =>
        this.#reservations
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
    if (!this.#reservations.devices().some((device) => deviceExists(device))) return false
    if (await this.#shared.stand()) return false
    await this.ensure(signal)
    return true
  }

  /** Reserves an address. The same sandbox gets the same one. */
  async reserve(sandbox: SandboxId): Promise<ReservedAddress> {
    const { address } = await this.#reserve(sandbox)
    const { gateway } = this.#pool
    return { address, gateway, resolver: gateway }
  }

  /** Connects the network namespace of `pid` before anything of the sandbox runs in it. Idempotent. */
  async attach(
    sandbox: SandboxId,
    pid: number,
    allow: readonly Ipv4Range[],
    signal: AbortSignal,
  ): Promise<void> {
    signal.throwIfAborted()
    const before = await this.#reserve(sandbox)
    const reservation = this.#reservations.attach(before, allow)
    const { resolver } = await this.#rules()
    const changed =
      before.allow !== undefined && !isDeepStrictEqual(before.allow, reservation.allow)
    const pool = this.#pool
    await settle([
      changed ? this.#table.make() : this.#table.add(reservation),
      makeVeth({ reservation, pool, pid, loopbackResolver: isLoopback(resolver), signal }),
    ])
  }

  /** Removes everything of the sandbox, from any half-done state; with the last sandbox, also the shared parts. */
  async detach(sandbox: SandboxId, signal: AbortSignal): Promise<void> {
    const device = this.#names.deviceOf(sandbox)
    const reservation = this.#reservations.holder(sandbox)
    if (reservation === undefined && !deviceExists(device)) return
    if (reservation !== undefined && reservation.sandbox !== sandbox) return
    this.#departures.set(device, "leaving")
    try {
      await settle([
        removeVeth(device, signal),
        ...(reservation !== undefined && isAttached(reservation)
          ? [this.#table.remove(reservation), dropBarrier(reservation, signal)]
          : []),
      ])
      this.#departures.set(device, "gone")
      const isUnused = () => this.#isUnused()
      if (isUnused()) await this.#shared.drop(isUnused)
      // The reservation goes last: a crash before this leaves something that is found by it.
      this.#reservations.release(sandbox)
    } finally {
      this.#departures.delete(device)
    }
  }

  /** The sandboxes that hold a reservation. */
  async list(): Promise<SandboxId[]> {
    return this.#reservations.all().map(({ sandbox }) => sandbox)
  }

  async #reserve(sandbox: SandboxId): Promise<Reservation> {
    return this.#reservations.reserve(sandbox, heldAddresses(await readRoutes()))
  }

  async #rules(): Promise<RulesInput> {
    const resolver = (await this.#resolvers()).find(isIPv4)
    return { names: this.#names, pool: this.#pool, resolver, bounds: this.#bounds() }
  }

  /** Called after each replacement of the table: barriers may be missing, and the name server may be another. */
  async #followTable({ resolver }: RulesInput): Promise<void> {
    const linked = ({ device }: Reservation) =>
      !this.#departures.has(device) && deviceExists(device)
    await ensureBarriers(this.#reservations.all().filter(linked))
    for (const device of this.#reservations.devices()) {
      if (deviceExists(device)) await routeLoopback(device, isLoopback(resolver))
    }
  }

  #isUnused(): boolean {
    return this.#reservations.devices().every((device) => this.#departures.get(device) === "gone")
  }
}
