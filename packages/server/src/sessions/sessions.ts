import { BerthError } from "@berth/protocol/errors"
import type { PromptId, SessionId } from "@berth/protocol/ids"
import type { AskAnswer, Prompt, Session } from "@berth/protocol/session"
import type { CreatePrompt, CreateSession, StopPrompts, Transcript } from "@berth/protocol/sessions"
import { Bells } from "../events/bells.ts"
import type { StreamPage } from "../events/pages.ts"
import { foldLog } from "../events/transcript.ts"
import type { Keys } from "../keys/keys.ts"
import type { Logger } from "../logging/logger.ts"
import type { Sandboxes } from "../sandboxes/sandboxes.ts"
import type { Clock } from "../sandboxes/state/clock.ts"
import type { FailPoint } from "../sandboxes/state/fail-point.ts"
import type { Store } from "../store/open.ts"
import { openCreate } from "./create.ts"
import { Driver } from "./driver.ts"
import type { EndOverdueParts } from "./end-overdue.ts"
import { openPresence } from "./presence.ts"
import { removeRows, requireIdle, untilIdle } from "./remove.ts"
import { openRequireRunnable } from "./require-runnable.ts"
import { isPending } from "./rows.ts"
import type { Stored } from "./stored.ts"
import { startUpkeep } from "./upkeep.ts"
import { Views } from "./views.ts"

/** The sessions of an installation. An accepted prompt is neither lost nor run twice, whatever ends in between. */
export interface Sessions {
  create(session: CreateSession, signal: AbortSignal): Promise<Session>
  list(): Promise<Session[]>
  get(session: SessionId): Promise<Session>
  /** Closes a session to new prompts, and stops those that wait. May be called twice. */
  close(session: SessionId): Promise<Session>
  /**
   * Removes a session with its prompts and events. Refused while a prompt of it runs or waits, unless forced: then it
   * is stopped first.
   */
  remove(session: SessionId, options: { readonly force: boolean }): Promise<void>
  /** Accepts a prompt. It is on disk when this resolves. */
  prompt(session: SessionId, prompt: CreatePrompt): Promise<Prompt>
  prompts(session: SessionId): Promise<Prompt[]>
  /** Stops prompts. Returns those that were asked to stop. */
  stop(session: SessionId, which: StopPrompts): Promise<PromptId[]>
  /** Answers a question of the agent. */
  answer(session: SessionId, answer: AskAnswer): Promise<void>
  transcript(session: SessionId): Promise<Transcript>
  /**
   * Gives the events with a higher number than `after`, then new ones, in order, without a gap or a repeat, until the
   * signal fires. A slow reader holds up nobody. Fails at once where there is no such session.
   */
  events(session: SessionId, after: number, signal: AbortSignal): Promise<AsyncIterable<StreamPage>>
}

export interface SessionsParts {
  /** The rows of sessions and prompts, and the log of events. */
  readonly stored: Stored
  readonly store: Pick<Store, "db" | "compact" | "durably">
  readonly sandboxes: Pick<Sandboxes, "use" | "running" | "workspaces">
  readonly keys: Keys
  readonly clock: Clock
  readonly log: Logger
  /** How long events are kept; null: for ever. */
  readonly keepEventsMs: number | null
  /** How long a session keeps its sandbox after it was active; 0: not at all. */
  readonly sessionKeepMs: number
  /** Kills processes of a sandbox from outside: see end-processes.ts. */
  readonly endProcesses: EndOverdueParts["endProcesses"]
  readonly at: FailPoint
}

export interface OpenSessions extends Sessions {
  /** Stops the work on sessions. They stay open, and their prompts continue in their sandboxes. */
  shutDown(): Promise<void>
}

/** Opens the sessions, and resumes the prompts of an earlier server in their sandboxes. */
export const openSessions = async (parts: SessionsParts): Promise<OpenSessions> => {
  const { stored, sandboxes, keys, clock } = parts
  const { rows, changes, log } = stored
  const used = { ...sandboxes.use, ...sandboxes.running }
  const presence = openPresence({ ...parts, sandboxes: used, rows })
  const driver = new Driver({ ...parts, sandboxes: used, presence })
  stored.onChange((session) => driver.wake(session))
  await driver.start()
  const upkeep = startUpkeep(parts)
  /** Rings when a session is removed, so that its followers learn that it no longer exists. */
  const removals = new Bells<SessionId>()
  const views = new Views(rows, (prompt) => driver.waitOf(prompt))
  const create = openCreate({ rows, sandboxes, keys, clock })
  const requireRunnable = openRequireRunnable(parts, presence)

  return {
    create: async (wanted, signal) => views.withWait(await create(wanted, signal)),
    list: () => views.list(),
    get: (session) => views.get(session),
    close: async (session) => {
      await changes.close(session)
      await presence.end(session)
      return await views.get(session)
    },
    remove: async (session, { force }) => {
      if (!force) await requireIdle(rows, session)
      await changes.close(session)
      await untilIdle(rows, session)
      await presence.end(session)
      await removeRows(parts.store, session)
      removals.ring(session)
    },
    prompt: async (session, sent) => {
      // A prompt that is sent again was accepted before, whatever has changed since.
      const isKnown = sent.key !== undefined && (await rows.hasKey(session, sent.key))
      if (!isKnown) await requireRunnable(await rows.get(session))
      const accepted = await changes.accept(session, sent)
      return views.prompt(accepted, await rows.next(session))
    },
    prompts: (session) => views.prompts(session),
    stop: async (session, { prompt }) => {
      const stopped = await changes.requestStop(session, prompt)
      if (prompt === undefined || stopped.length > 0) return stopped
      if ((await rows.prompts(session)).some(({ id }) => id === prompt)) return []
      throw new BerthError("prompt.unknown", `there is no prompt ${prompt} in ${session}`, {
        details: { session, prompt },
      })
    },
    answer: async (session, answer) => {
      await rows.get(session)
      const prompt = await rows.next(session)
      if (prompt?.sandbox == null || !isPending(prompt.state))
        throw new BerthError("session.nothing_asked", "no prompt runs in this session", {
          details: { session, ask: answer.ask },
        })
      await sandboxes.running.connection(prompt.sandbox).answerPrompt(prompt.id, answer)
    },
    transcript: async (session) => {
      const { lastEvent } = await rows.get(session)
      const shown = await views.prompts(session)
      const fold = await foldLog(log, session, lastEvent)
      const turns = shown.map((prompt) => ({ prompt, parts: fold.partsOf(prompt.id) }))
      return { lastEvent, turns }
    },
    events: async (session, after, signal) => {
      await stored.turns.take("read", () => rows.require(session))
      presence.watch(session, signal)
      const removed = new AbortController()
      void removals.next(session, signal).then(() => removed.abort())
      return log.follow(session, after, AbortSignal.any([signal, removed.signal]))
    },
    shutDown: async () => {
      upkeep.close()
      presence.close()
      await driver.close()
    },
  }
}
