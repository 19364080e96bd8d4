import type { Shortage } from "@berth/host/shortage"
import type { Layers } from "@berth/layers/layers"
import type { StackKey } from "@berth/protocol/layer"
import type { Logger } from "../../logging/logger.ts"
import { operation } from "../../logging/operation.ts"

export interface FlatteningParts {
  readonly layers: Pick<Layers, "flatten" | "collect">
  readonly shortage: Shortage
  readonly log: Logger
}

/** Flattens deep stacks in the background, one after another, whether sandboxes have them or not. */
export interface Flattening {
  /** Flattens a deep stack as soon as the stacks before it are done. */
  deep(key: StackKey): void
  /** A stack was put on its single layer: the layers that it stood on are removed, unless others stand on them. */
  rebased(): void
  close(): Promise<void>
}

/** Opens the background work. A flattening that fails is tried again when the files are used the next time. */
export const openFlattening = ({ layers, shortage, log }: FlatteningParts): Flattening => {
  const over = new AbortController()
  const { signal } = over
  const waiting = new Map<string, StackKey>()
  let running: Promise<void> | undefined
  let isCollectDue = false

  const flattenOne = async (key: StackKey): Promise<void> => {
    const lack = await shortage("low")
    if (lack?.of === "disk") {
      log.warn({ op: "layers.flatten", ...key }, `a deep stack is not flattened: ${lack.words}`)
      return
    }
    await operation(log, "layers.flatten", { ...key }, () => layers.flatten(key, { signal }))
    isCollectDue = true
  }

  const work = async (): Promise<void> => {
    for (const [name, key] of waiting) {
      if (signal.aborted) return
      await flattenOne(key).catch(() => {
        // The operation's log line has said why.
      })
      waiting.delete(name)
    }
    if (!isCollectDue || signal.aborted) return
    isCollectDue = false
    await layers.collect({ wait: false, signal })
  }

  const start = (): void => {
    const failed = (err: unknown) =>
      log.warn({ op: "layers.collect", err }, "unused layers stay until the next collection")
    running ??= work()
      .catch(failed)
      .finally(() => {
        running = undefined
        if (!signal.aborted && (waiting.size > 0 || isCollectDue)) start()
      })
  }

  return {
    deep: (key) => {
      waiting.set(`${key.workspace}/${key.name}`, key)
      start()
    },
    rebased: () => {
      isCollectDue = true
      start()
    },
    close: async () => {
      over.abort()
      await running
    },
  }
}
