import { setTimeout as pause } from "node:timers/promises"
import { BerthError } from "@berth/protocol/errors"
import type { ToolboxId } from "@berth/protocol/toolbox"
import type { BuildCall } from "@berth/toolbox/build"
import { type OptionalAgent, optionalAgent } from "@berth/toolbox/inputs/optional-agents"
import type { BuiltToolbox } from "@berth/toolbox/store"
import type { Logger } from "../../logging/logger.ts"
import { operation } from "../../logging/operation.ts"

/** How often callers are told the progress. */
const TELL_EVERY_MS = 1_000

/** Unused toolboxes are removed when the first requests have been answered. */
const COLLECT_AFTER_MS = 5_000

export interface CurrentParts {
  readonly build: (call: BuildCall, agent?: OptionalAgent) => Promise<BuiltToolbox>
  /** Removes the toolboxes that nobody uses, except these. */
  readonly collect: (keep: readonly ToolboxId[], signal: AbortSignal) => Promise<unknown>
  readonly log: Logger
  /** Ends the builds. */
  readonly signal: AbortSignal
  /** Default: TELL_EVERY_MS. */
  readonly tellEveryMs?: number
  /** Default: COLLECT_AFTER_MS. */
  readonly collectAfterMs?: number
}

export interface ToolboxWait {
  /** Ends the wait of this caller; the build goes on. */
  readonly signal?: AbortSignal
  /** Whether the caller gets the progress as an error, and asks again. Default: it waits, however long that takes. */
  readonly isTold?: boolean
}

/** A toolbox that is being built, or that was built. */
interface Building {
  readonly built: Promise<BuiltToolbox>
  made?: BuiltToolbox
  /** The progress in words. */
  said: string
}

/**
 * Gives the toolbox for an agent: found or built at the first call, for all callers; after a failure the next call
 * tries again.
 */
export const currentToolbox = (parts: CurrentParts) => {
  const { log, signal: ended, tellEveryMs = TELL_EVERY_MS } = parts
  const { collectAfterMs = COLLECT_AFTER_MS } = parts
  const buildings = new Map<OptionalAgent | undefined, Building>()

  const collect = (): void => {
    const all = [...buildings.values()]
    const made = all.flatMap(({ made }) => made?.id ?? [])
    // A toolbox that is just being built looks unused. When it is done, there is another collection.
    if (ended.aborted || made.length < all.length) return
    parts.collect(made, ended).catch((err: unknown) => {
      if (ended.aborted) return
      log.warn({ op: "toolbox.collect", err }, "unused toolboxes stay until the next build")
    })
  }

  const begin = (agent: OptionalAgent | undefined): Building => {
    const fields = agent === undefined ? {} : { agent }
    const built = operation(log, "toolbox.build", fields, async (note) => {
      const onProgress: BuildCall["onProgress"] = ({ step, bytesDone, bytesTotal }) => {
        const tenths = `${step} ${10 * Math.floor((10 * bytesDone) / bytesTotal)} %`
        if (tenths === building.said) return
        building.said = tenths
        log.debug({ op: "toolbox.build", progress: tenths }, `toolbox.build: ${tenths}`)
      }
      const made = await parts.build({ signal: ended, onProgress }, agent)
      note({ toolbox: made.id, toolboxOutcome: made.outcome })
      building.made = made
      setTimeout(collect, collectAfterMs).unref()
      return made
    })
    const building: Building = { built, said: "" }
    buildings.set(agent, building)
    built.catch(() => buildings.delete(agent))
    return building
  }

  return async (kind: string, wait: ToolboxWait = {}): Promise<BuiltToolbox> => {
    const { signal = ended, isTold = false } = wait
    const agent = optionalAgent(kind)
    const building = buildings.get(agent) ?? begin(agent)
    for (;;) {
      const built = building.made ?? (await within(tellEveryMs, building.built, signal))
      if (built !== undefined) return built
      if (isTold && building.said !== "") throw preparing(agent, building.said)
    }
  }
}

/** Resolves with the toolbox, or with nothing after this time. Rejects when the signal fires. */
const within = async (
  ms: number,
  built: Promise<BuiltToolbox>,
  signal: AbortSignal,
): Promise<BuiltToolbox | undefined> => {
  const over = new AbortController()
  const time = pause(ms, undefined, { signal: AbortSignal.any([signal, over.signal]) })
  const passed = time.catch(() => {
    signal.throwIfAborted()
    return undefined
  })
  try {
    return await Promise.race([built, passed])
  } finally {
    over.abort()
  }
}

const preparing = (agent: OptionalAgent | undefined, said: string): BerthError => {
  const what =
    agent === undefined ? "the toolbox is being built" : `${agent} is made ready for its first use`
  return new BerthError("toolbox.preparing", `${what}: ${said}`, {
    details: agent === undefined ? {} : { agent },
  })
}
