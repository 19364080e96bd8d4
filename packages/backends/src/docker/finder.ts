import { abortable } from "@berth/host/abortable"
import type { SandboxId } from "@berth/protocol/ids"
import { DEADLINES_MS } from "../backend.ts"
import { withinDeadline } from "../call.ts"
import { inspectSandbox, type Listed, listContainers } from "./engine/containers.ts"
import { containerName } from "./engine/names.ts"
import { type Observed, observe, observeListed, type Startable } from "./engine/observe.ts"
import { unheldLimits } from "./info.ts"
import type { Parts } from "./parts.ts"

/** Finds the engine's state of a sandbox, as of the moment of the call or later. */
export interface Finder {
  find(sandbox: SandboxId, signal: AbortSignal): Promise<Observed | undefined>
  /** Inspects the container itself, which tells more than a list. */
  inspect(sandbox: SandboxId, signal: AbortSignal): Promise<Startable | undefined>
}

/**
 * From this many questions at once on, one list of a few dozen containers is faster for the engine than single answers.
 */
const WORTH_A_LIST = 4
/** The engine lists about this many containers in the time of one inspection. */
const LISTED_FOR_ONE = 16

/** Answers all questions of the same turn of the event loop, as a reconcile asks them, from one list. */
export const openFinder = ({ engine, installation, info }: Parts): Finder => {
  type Listing = Promise<ReadonlyMap<string, Listed>>
  let waiting: ((listing: Listing | undefined) => void)[] = []
  /** The length of the last list. */
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
      // A list does not tell how a container ended.
      return seen?.state === "exited" ? inspect(sandbox, signal) : seen
    },
  }
}
