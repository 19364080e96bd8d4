import { join } from "node:path"
import type { BootMode, BootTrace } from "@berth/protocol/boot"
import { SHARED } from "@berth/protocol/shared-directory"
import type { Inside } from "./bridge/inside.ts"
import type { ListenAddress } from "./bridge/listen.ts"
import { serveBridge } from "./bridge/serve.ts"
import { readToken } from "./bridge/token.ts"
import { readPlan } from "./plan.ts"
import { pause } from "./processes/clock.ts"
import type { SandboxParts, Standing } from "./tend/options.ts"

export interface SuperviseOptions extends SandboxParts {
  /** A port to serve on beside the socket, for a server that cannot reach the socket; 0: none. */
  readonly port: number
}

/**
 * Pause before the rest is loaded, so that a client that waits for the socket is answered before that takes the
 * processor.
 */
const FIRST_ANSWER_MS = 2

/**
 * Runs a sandbox from its first millisecond to its last. Opens the socket with the little that its first answer needs,
 * then loads the rest. Resolves with the exit status, when nothing runs any more.
 */
export const supervise = async (options: SuperviseOptions): Promise<number> => {
  const { clock, shared, port, stop, onFault } = options
  const startedAt = new Date()
  const plan = readPlan(join(shared, SHARED.plan))
  const token = readToken(join(shared, SHARED.token))
  const standing: Standing = {
    ready: false,
    promptCount: () => 0,
    trace: () => notBegun(plan.mode, startedAt),
  }
  const { promise: inside, resolve: open } = Promise.withResolvers<Inside>()
  const bridge = serveBridge({
    listen: listenOn(shared, port),
    token,
    sandbox: plan.sandbox,
    health: () => ({ ready: standing.ready, prompts: standing.promptCount() }),
    boot: () => standing.trace(),
    inside,
    onFault,
  })
  // A failure to listen is reported by the step that waits for it.
  await bridge.catch(() => {})
  await pause(clock, FIRST_ANSWER_MS, stop)
  await answerArrived()
  const { tend } = await import("./tend.ts")
  return await tend({ ...options, plan, startedAt, standing, bridge, open })
}

/**
 * Answers a client that came during the pause: on a busy machine that is over before the event loop has seen it. One
 * turn accepts the connection, the next reads from it.
 */
const answerArrived = async (): Promise<void> => {
  for (let turn = 0; turn < 2; turn++) await new Promise((resolve) => setImmediate(resolve))
}

const listenOn = (shared: string, port: number): ListenAddress[] => [
  { path: join(shared, SHARED.socket) },
  ...(port === 0 ? [] : [{ host: "0.0.0.0", port }]),
]

const notBegun = (mode: BootMode, startedAt: Date): BootTrace => ({
  mode,
  startedAt: startedAt.toISOString(),
  outcome: "running",
  readyAtMs: null,
  endedAtMs: null,
  ending: null,
  warnings: [],
  steps: [],
})
