import type { Backend, FoundCache } from "@berth/backends/backend"
import type { Lack, Shortage } from "@berth/host/shortage"
import type { Layers } from "@berth/layers/layers"
import { BerthError } from "@berth/protocol/errors"
import type { SandboxId } from "@berth/protocol/ids"
import type { Logger } from "../../logging/logger.ts"
import type { Rows } from "../state/rows.ts"
import type { Transients } from "../state/transients.ts"
import type { Idle } from "../use/idle.ts"
import type { Leases } from "../use/leases.ts"
import type { Workers } from "./workers.ts"

export interface PressureParts {
  readonly shortage: Shortage
  readonly backend: Pick<Backend, "listCaches" | "removeCache">
  readonly rows: Pick<Rows, "list" | "get">
  readonly leases: Pick<Leases, "all">
  readonly idle: Pick<Idle, "ms">
  readonly workers: Pick<Workers, "settle">
  readonly layers: Pick<Layers, "collect">
  readonly log: Logger
  readonly transients: Transients
}

/** Makes room when the host runs short of something. Never touches a sandbox that is in use. */
export interface Pressure {
  /** Rejects where there is no room for another sandbox, and none can be made. */
  admit(): Promise<void>
  /** Makes room, if something runs low. */
  relieve(): Promise<void>
  /** Checks again and again from now on. */
  watch(): void
  close(): Promise<void>
}

/** A check costs nothing, and a build fills gigabytes in a minute. */
export const RELIEVE_EVERY_MS = 10_000

export const openPressure = (parts: PressureParts): Pressure => {
  const { log } = parts
  const over = new AbortController()
  let running: Promise<void> | undefined
  let watching: NodeJS.Timeout | undefined
  let isHopeless = false

  /** Reads the shortage. If it cannot be read, nobody is refused and nothing is stopped. */
  const look: Shortage = async (level) => {
    try {
      return await parts.shortage(level)
    } catch (err) {
      log.warn({ op: "host.relieve", err }, "what is left of the host cannot be read")
      return undefined
    }
  }

  const makeRoom = async (): Promise<void> => {
    let lack = await look("low")
    if (lack === undefined) {
      isHopeless = false
      return
    }
    for await (const { what, giveUp } of measures(parts)) {
      if (over.signal.aborted) return
      try {
        if (!(await giveUp(lack))) continue
      } catch (err) {
        log.warn({ op: "host.relieve", err }, `${what}: failed`)
        continue
      }
      log.warn({ op: "host.relieve" }, `${lack.words}: ${what}`)
      lack = await look("low")
      if (lack === undefined) return
    }
    // Logged once: the attempt is repeated until there is room.
    if (!isHopeless) log.error({ op: "host.relieve" }, `${lack.words}, and nothing is unused`)
    isHopeless = true
  }

  /** Concurrent callers share one attempt. */
  const relieve = (): Promise<void> => {
    running ??= makeRoom().finally(() => {
      running = undefined
    })
    return running
  }

  return {
    admit: async () => {
      if ((await look("out")) === undefined) return
      await relieve()
      const lack = await look("out")
      if (lack === undefined) return
      const message = `there is no room for another sandbox: ${lack.words}`
      throw new BerthError("host.exhausted", message, { details: { lack: lack.of } })
    },
    relieve,
    watch: () => {
      const failed = (err: unknown) =>
        log.warn({ op: "host.relieve", err }, "making room on the host failed; retrying in 10 s")
      watching = setInterval(() => void relieve().catch(failed), RELIEVE_EVERY_MS).unref()
    },
    close: async () => {
      over.abort()
      clearInterval(watching)
      await running?.catch(() => {})
    },
  }
}

interface Measure {
  readonly what: string
  /** Returns false if there was nothing to give up any more, or it would not help. */
  readonly giveUp: (lack: Lack) => Promise<boolean>
}

/** The measures that make room, in this order; each kind is looked up when it is its turn. */
async function* measures(parts: PressureParts): AsyncGenerator<Measure> {
  const { backend, layers } = parts
  for (const sandbox of await unusedSandboxes(parts))
    yield {
      what: `${sandbox} is stopped, which nobody uses`,
      giveUp: ({ words }) => stop(parts, sandbox, words),
    }
  for (const { workspace, cache } of await unusedCaches(parts))
    yield {
      what: `the ${cache} cache of ${workspace} is removed`,
      giveUp: async (lack) => lack.of === "disk" && (await backend.removeCache(workspace, cache)),
    }
  yield {
    what: "layers that nothing stands on are removed",
    giveUp: async (lack) => {
      if (lack.of !== "disk") return false
      const collected = await layers.collect()
      return collected.layers.length + collected.tops.length > 0
    },
  }
}

/** The sandboxes without leases, longest unused first. */
const unusedSandboxes = async ({ rows, leases, idle }: PressureParts): Promise<SandboxId[]> => {
  const held = await leases.all()
  return (await rows.list())
    .filter(
      ({ id, phase }) =>
        (phase === "ready" || phase === "failed") && (held.get(id) ?? []).length === 0,
    )
    .map(({ id }) => ({ id, idleMs: idle.ms(id) }))
    .sort((one, other) => other.idleMs - one.idleMs)
    .map(({ id }) => id)
}

const stop = async (
  { rows, workers, transients }: PressureParts,
  sandbox: SandboxId,
  why: string,
): Promise<boolean> => {
  // The worker of the sandbox reads the reason, and decides.
  transients.change(sandbox, { pressure: why })
  try {
    const { failure } = await workers.settle(sandbox)
    if (failure !== undefined) throw failure
    const phase = (await rows.get(sandbox))?.phase
    return phase === undefined || phase === "gone"
  } finally {
    transients.change(sandbox, { pressure: undefined })
  }
}

/**
 * The caches of workspaces without a sandbox, longest unused first; those whose last use is not known come before them.
 */
const unusedCaches = async ({ rows, backend }: PressureParts): Promise<FoundCache[]> => {
  const live = new Set((await rows.list()).map(({ workspace }) => workspace))
  return (await backend.listCaches())
    .filter(({ workspace }) => !live.has(workspace))
    .sort((one, other) => ((one.usedAt ?? "") < (other.usedAt ?? "") ? -1 : 1))
}
