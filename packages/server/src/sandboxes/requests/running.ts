import { Readable } from "node:stream"
import type { Backend, EngineState } from "@berth/backends/backend"
import type { SandboxId } from "@berth/protocol/ids"
import { type GivingUp, openGiveUp } from "../deciding/give-up.ts"
import type { Bridges } from "../keeping/bridges.ts"
import type { SandboxConnection } from "../keeping/connection.ts"
import { type Keeping, sharedDirectoryOf } from "../keeping/open.ts"
import type { State } from "../state/open.ts"
import type { Rows } from "../state/rows.ts"
import { unknownSandbox } from "../state/unknown.ts"

export interface RunningParts
  extends Pick<Keeping, "connections">,
    Pick<State, "sharedDirectories" | "departures"> {
  readonly backend: Pick<Backend, "inspect">
  readonly bridges: Pick<Bridges, "put">
  readonly rows: Rows
  /** Why a sandbox is halted, if it is, be it for a moment. */
  readonly haltOf: (sandbox: SandboxId) => string | undefined
  readonly wake: (sandbox: SandboxId) => void
}

/** The sandboxes that run, as the sessions in them see them. */
export interface RunningSandboxes {
  /** The connection to a sandbox. Fails where there is none. */
  connection(sandbox: SandboxId): SandboxConnection
  /** Resolves when the sandbox is ready or never will be, or the signal fires. */
  booted(sandbox: SandboxId, signal: AbortSignal): Promise<void>
  /** Writes a file into the sandbox, for its user. */
  putFile(sandbox: SandboxId, path: string, content: Buffer, signal: AbortSignal): Promise<void>
  /** The engine's state of a sandbox; undefined: it has none. A sandbox that is paused in use is woken. */
  stateOf(sandbox: SandboxId): Promise<EngineState | undefined>
  /** Resolves when the store has the sandbox as gone, and all its events are stored. Rejects when the signal fires. */
  gone(sandbox: SandboxId, signal: AbortSignal): Promise<void>
  /** Why a sandbox is halted, if it is, be it for a moment. */
  haltOf(sandbox: SandboxId): string | undefined
  /** Ends a sandbox that does not answer to a person, unless others use it or it is halted. Returns why it stays. */
  giveUp(sandbox: SandboxId, givingUp: GivingUp): Promise<string | undefined>
}

export const openRunning = (parts: RunningParts): RunningSandboxes => {
  const { connections, backend, bridges, departures, wake } = parts

  const connection = (sandbox: SandboxId): SandboxConnection => {
    const found = connections.get(sandbox)
    if (found !== undefined) return found
    throw unknownSandbox(sandbox)
  }

  return {
    connection,

    booted: async (sandbox, signal) => {
      const fired = Promise.withResolvers<void>()
      const onAbort = () => fired.resolve()
      signal.addEventListener("abort", onAbort)
      if (signal.aborted) onAbort()
      try {
        const booting = connection(sandbox)
          .booted(signal)
          .catch(() => {})
        await Promise.race([booting, fired.promise])
      } finally {
        signal.removeEventListener("abort", onAbort)
      }
    },

    putFile: async (sandbox, path, content, signal) => {
      const query = new URLSearchParams({ path, parents: "true" })
      const body = Readable.from([content])
      await bridges.put(
        await sharedDirectoryOf(parts, sandbox),
        `/files/content?${query}`,
        body,
        signal,
      )
    },

    stateOf: async (sandbox) => {
      const state = (await backend.inspect(sandbox))?.state
      if (state === "paused") wake(sandbox)
      return state
    },

    gone: (sandbox, signal) => departures.of(sandbox, signal),

    haltOf: parts.haltOf,

    giveUp: openGiveUp(parts),
  }
}
