import type { SandboxId } from "@berth/protocol/ids"
import { abortable } from "../../host/abortable.ts"
import { DEADLINES_MS } from "../backend.ts"
import { withinDeadline } from "../call.ts"
import { inspectSandbox, type Listed, listContainers } from "./containers.ts"
import { unheldLimits } from "./info.ts"
import { containerName } from "./names.ts"
import { type Observed, observe, observeListed, type Startable } from "./observe.ts"
import type { Parts } from "./parts.ts"

/** What the engine has of a sandbox at the moment of the call, or later. */
export interface Finder {
  find(sandbox: SandboxId, signal: AbortSignal): Promise<Observed | undefined>
  /** Always by itself, and with more than a list tells. */
  inspect(sandbox: SandboxId, signal: AbortSignal): Promise<Startable | undefined>
}

/** An engine takes longer for so many by themselves than for a list of a few dozen. */
const WORTH_A_LIST = 4
/** An engine lists about so many while it tells of one by itself. */
const LISTED_FOR_ONE = 16

/** Those who ask in the same turn of the event loop, as a reconcile does, are answered from one list. */
export const openFinder = ({ engine, installation, info }: Parts): Finder => {
  type Listing = Promise<ReadonlyMap<string, Listed>>
  let waiting: ((listing: Listing | undefined) => void)[] = []
  /** How many the last list had. */
  let listedLast = 0

  const list = async (): Listing => {
    const listed = await withinDeadline("sandbox.list", DEADLINES_MS.list, {}, (signal) =>
      listContainers(engine, installation, signal),
    )
    listedLast = listed.length
    return new Map(listed.flatMap((each) => each.names.map((name) => [name, each] as const)))
  }
  const answer = (): void => {
    const all = waiting
    waiting = []
    const isWorthIt = all.length >= Math.max(WORTH_A_LIST, listedLast / LISTED_FOR_ONE)
    const listing = isWorthIt ? list() : undefined
    listing?.catch(() => {})
    for (const resolve of all) resolve(listing)
  }
  const join = (): Promise<{ readonly listing: Listing | undefined }> =>
    new Promise((resolve) => {
      if (waiting.length === 0) setImmediate(answer)
      waiting.push((listing) => resolve({ listing }))
    })

  const inspect = async (sandbox: SandboxId, signal: AbortSignal) => {
    const found = await inspectSandbox(engine, sandbox, signal)
    return found && observe(found, installation, unheldLimits(info()))
  }

  return {
    inspect,
    find: async (sandbox, signal) => {
      const { listing } = await join()
      if (listing === undefined) return inspect(sandbox, signal)
      const listed = (await abortable(listing, signal)).get(containerName(sandbox))
      const seen = listed && observeListed(listed, installation, unheldLimits(info()))
      // A list does not tell how one ended.
      return seen?.state === "exited" ? inspect(sandbox, signal) : seen
    },
  }
}
