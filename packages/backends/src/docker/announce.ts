import { serialByKey } from "@berth/host/serial"
import { timeoutSignal } from "@berth/host/timeout-signal"
import { DEADLINES_MS } from "../backend.ts"
import type { Watchers } from "../watchers.ts"
import { inspectContainer } from "./engine/containers.ts"
import { exitOfCode, observe } from "./engine/observe.ts"
import type { EngineEvent } from "./events.ts"
import type { Parts } from "./parts.ts"

/** Announces each exit and removal once, with what the engine knows of it, in the order in which they happened. */
export const announcer = ({ engine, installation, leaving, far }: Parts, watchers: Watchers) => {
  const inTurn = serialByKey()
  const tell = async ({ action, sandbox, engineId, exitCode = 0, at }: EngineEvent) => {
    // The port of an ended sandbox is free for another one.
    far?.forget()
    if (action === "destroy") return watchers.emit({ kind: "removed", sandbox })
    const signal = timeoutSignal(DEADLINES_MS.inspect)
    // An inspection would keep the engine from removing the container.
    const found = leaving.has(sandbox)
      ? undefined
      : await inspectContainer(engine, engineId, signal)
    const seen = found && observe(found, installation, [])
    const exit = seen?.exit ?? exitOfCode(exitCode, at)
    watchers.emit({ kind: "exited", sandbox, exit })
  }
  return (event: EngineEvent): void => {
    inTurn(event.sandbox, () => tell(event)).catch(() => watchers.emit({ kind: "resync" }))
  }
}
