import { abortable } from "@berth/host/abortable"
import { connectionsMark } from "../../connections/rules.ts"
import { type Chain, readChains } from "./chains.ts"
import { closeHostFirewall, openHostFirewall } from "./host-firewall.ts"
import type { Names } from "./names.ts"
import type { Pool } from "./pool.ts"
import { readRoutes, refuseConflict } from "./routes.ts"
import { connectionsOf, markOf, type RulesInput } from "./rules.ts"
import { enableForwarding } from "./sysctl.ts"
import type { Table } from "./table.ts"

interface SharedPartsOptions {
  readonly names: Names
  readonly pool: Pool
  readonly rules: () => Promise<RulesInput>
  readonly table: Table
}

/** The parts of the network that all sandboxes share: forwarding, the tables, and a way through the host's firewall. */
export class SharedParts {
  readonly #names: Names
  readonly #pool: Pool
  readonly #rules: () => Promise<RulesInput>
  readonly #table: Table
  /** The attempt to make the parts, while it runs. */
  #attempt: Promise<void> | undefined

  constructor({ names, pool, rules, table }: SharedPartsOptions) {
    this.#names = names
    this.#pool = pool
    this.#rules = rules
    this.#table = table
  }

  /** Makes the parts that do not stand. Concurrent callers share one attempt. */
  ensure(signal: AbortSignal): Promise<void> {
    // Assigned before the first await, so that concurrent callers share one attempt.
    this.#attempt ??= this.#make().finally(() => {
      this.#attempt = undefined
    })
    return abortable(this.#attempt, signal)
  }

  /** Whether both tables stand, made from the rules of now. */
  async stand(): Promise<boolean> {
    return standBy(await readChains(), await this.#rules())
  }

  /** Removes the tables and the way through the firewall, unless a sandbox needs them by then. */
  async drop(isUnused: () => boolean): Promise<void> {
    await this.#table.drop(isUnused)
    if (isUnused()) await closeHostFirewall(this.#names)
  }

  async #make(): Promise<void> {
    refuseConflict(this.#pool, await readRoutes())
    await enableForwarding()
    const input = await this.#rules()
    const chains = await readChains()
    if (!standBy(chains, input)) await this.#table.make()
    await openHostFirewall(this.#names, chains, input.resolver)
  }
}

/** Whether both tables stand, made from exactly these rules. */
const standBy = (chains: readonly Chain[], input: RulesInput): boolean => {
  const connections = connectionsOf(input)
  const marks = [
    { table: input.names.table, mark: markOf(input) },
    { table: connections.table, mark: connectionsMark(connections) },
  ]
  return marks.every(({ table, mark }) =>
    chains.some((chain) => chain.table === table && chain.name === mark),
  )
}
