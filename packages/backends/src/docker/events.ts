import type { IncomingMessage } from "node:http"
import { setTimeout as pause } from "node:timers/promises"
import { backoffMs } from "@berth/host/backoff"
import { timeoutSignal } from "@berth/host/timeout-signal"
import type { InstallationId, SandboxId } from "@berth/protocol/ids"
import { z } from "zod"
import type { Engine } from "./engine/engine.ts"
import { ours, sandboxOf } from "./engine/names.ts"

/** An event of one of our containers, in the engine's words. */
export interface EngineEvent {
  readonly action: "die" | "destroy"
  readonly sandbox: SandboxId
  readonly engineId: string
  readonly exitCode: number | undefined
  readonly at: Date
}

export interface EventHandlers {
  onEvent(event: EngineEvent): void
  /** The engine is there again; events in between are lost. */
  onGap(): void
}

export interface Events {
  close(): Promise<void>
}

const CONNECT_DEADLINE_MS = 5_000
/** An engine restart takes seconds, so the first attempts come soon, the later ones less often. */
const RECONNECT = { firstMs: 50, mostMs: 2_000 }
/** An engine that hangs keeps its connections open: after this long without an event, it is asked whether it lives. */
const SILENCE_MS = 15_000
const MAX_LINE_LENGTH = 1024 * 1024

const EventLine = z.object({
  Action: z.string(),
  Actor: z.object({ ID: z.string(), Attributes: z.record(z.string(), z.string()).default({}) }),
  timeNano: z.number(),
})
const NANOSECONDS_PER_MS = 1_000_000

/** Follows the engine's events until it is closed, through every restart of the engine. */
export const openEvents = async (
  engine: Engine,
  installation: InstallationId,
  handlers: EventHandlers,
  signal: AbortSignal,
): Promise<Events> => {
  const closing = new AbortController()
  const connect = () => connectOnce(engine, installation, closing.signal)
  const first = await connectOnce(engine, installation, AbortSignal.any([closing.signal, signal]))

  const follow = async () => {
    let stream = first
    while (!closing.signal.aborted) {
      await readEvents(engine, stream, handlers).catch(() => {})
      const next = await reconnect(engine, connect, closing.signal)
      if (next === undefined) return
      stream = next
      handlers.onGap()
    }
  }
  const done = follow()
  return {
    async close() {
      closing.abort()
      await done
    },
  }
}

/**
 * Subscribes from the engine's own "now" on. The engine starts to listen somewhat after it has answered, and tells
 * events in between from its memory.
 */
const connectOnce = async (
  engine: Engine,
  installation: InstallationId,
  signal: AbortSignal,
): Promise<IncomingMessage> => {
  const late = timeoutSignal(CONNECT_DEADLINE_MS)
  const { SystemTime } = await engine.read(
    { method: "GET", path: "/info" },
    z.object({ SystemTime: z.iso.datetime({ offset: true }) }),
    AbortSignal.any([signal, late]),
  )
  const filters = {
    type: ["container"],
    event: ["die", "destroy"],
    label: [ours(installation)],
  }
  const since = (new Date(SystemTime).getTime() / 1_000).toFixed(3)
  const stopped = new AbortController()
  const query = { since, filters }
  const timer = setTimeout(() => stopped.abort(late.reason), CONNECT_DEADLINE_MS)
  try {
    const request = { method: "GET", path: "/events", query } as const
    return await engine.follow(request, AbortSignal.any([signal, stopped.signal]))
  } finally {
    clearTimeout(timer)
  }
}

const reconnect = async (
  engine: Engine,
  connect: () => Promise<IncomingMessage>,
  closing: AbortSignal,
): Promise<IncomingMessage | undefined> => {
  for (let failures = 1; !closing.aborted; failures += 1) {
    try {
      await engine.renew(AbortSignal.any([closing, timeoutSignal(CONNECT_DEADLINE_MS)]))
      return await connect()
    } catch {
      // The engine is down. Callers of operations are told; this loop only tries again.
      await pause(backoffMs(failures, RECONNECT), undefined, { signal: closing, ref: false }).catch(
        () => {},
      )
    }
  }
  return undefined
}

const readEvents = async (
  engine: Engine,
  stream: IncomingMessage,
  { onEvent }: EventHandlers,
): Promise<void> => {
  const check = setInterval(() => {
    const asked = engine.ask(
      { method: "GET", path: "/_ping" },
      [200],
      timeoutSignal(CONNECT_DEADLINE_MS),
    )
    asked.catch(() => stream.destroy())
  }, SILENCE_MS)
  check.unref()
  let rest = ""
  try {
    for await (const chunk of stream.setEncoding("utf8")) {
      check.refresh()
      rest += chunk
      const lines = rest.split("\n")
      rest = lines.pop() ?? ""
      if (rest.length > MAX_LINE_LENGTH) return
      for (const line of lines) readLine(line, onEvent)
    }
  } finally {
    clearInterval(check)
    stream.destroy()
  }
}

const readLine = (line: string, onEvent: EventHandlers["onEvent"]): void => {
  if (line.trim() === "") return
  const { Action, Actor, timeNano } = EventLine.parse(JSON.parse(line))
  const sandbox = sandboxOf(Actor.Attributes)
  if (sandbox === undefined || (Action !== "die" && Action !== "destroy")) return
  const { exitCode } = Actor.Attributes
  onEvent({
    action: Action,
    sandbox,
    engineId: Actor.ID,
    exitCode: exitCode === undefined ? undefined : Number(exitCode),
    at: new Date(timeNano / NANOSECONDS_PER_MS),
  })
}
