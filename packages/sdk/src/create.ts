import { BerthError } from "@berth/protocol/errors"
import { type CreateSandboxInput, MAX_WAIT_MS, SandboxView } from "@berth/protocol/sandboxes"
import { type CallOptions, type Connection, call } from "./call.ts"

export interface CreateOptions extends CallOptions {
  /** Called with the users that the workspace waits for, in words, each time that the server reports them. */
  readonly onWait?: (reason: string) => void
  /** Called with the progress of the toolbox that is built for the first sandbox, or for the agent's first use, in words. */
  readonly onPreparing?: (progress: string) => void
}

/** The server's first creation includes the build of the toolbox. */
export const CREATE_DEADLINE_MS = 300_000

/** The first wait, after which the caller is told what it waits for. */
const FIRST_WAIT_MS = 1_000

/** The time for an answer, also on a busy machine: if less is left, asking again is useless. */
const ANSWER_MS = 1_000

/** Asks again while the workspace's sandbox is in use and another is wanted, until the deadline. */
export const create = async (
  connection: Connection,
  spec: CreateSandboxInput,
  { onWait, onPreparing, signal, deadlineMs = CREATE_DEADLINE_MS }: CreateOptions = {},
): Promise<SandboxView> => {
  const endMs = performance.now() + deadlineMs
  let draining: BerthError | undefined
  for (;;) {
    const leftMs = Math.max(1, Math.floor(endMs - performance.now()))
    const mostMs = draining === undefined ? FIRST_WAIT_MS : MAX_WAIT_MS
    const waitMs = Math.max(0, Math.min(mostMs, leftMs - ANSWER_MS))
    const ask = { method: "POST", path: `/v1/sandboxes?wait=${waitMs}`, json: spec } as const
    try {
      return await call(connection, ask, SandboxView, { signal, deadlineMs: leftMs })
    } catch (thrown) {
      if (!(thrown instanceof BerthError)) throw thrown
      // The users that it waited for say more than that it took too long.
      if (thrown.code === "deadline.exceeded") throw draining ?? thrown
      if (thrown.code === "toolbox.preparing") {
        onPreparing?.(thrown.message)
        if (performance.now() + ANSWER_MS >= endMs) throw thrown
        continue
      }
      if (thrown.code !== "workspace.draining") throw thrown
      draining = thrown
      onWait?.(thrown.message)
      if (performance.now() + ANSWER_MS >= endMs) throw thrown
    }
  }
}
