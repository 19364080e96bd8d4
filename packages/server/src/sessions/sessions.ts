import { BerthError } from "@berth/protocol/errors"
import type { PromptId, SessionId } from "@berth/protocol/ids"
import type { AskAnswer, Prompt, PromptWait, Session } from "@berth/protocol/session"
import type { CreatePrompt, CreateSession, StopPrompts, Transcript } from "@berth/protocol/sessions"
import { AgentSpec, type WorkspaceSpec } from "@berth/protocol/workspace"
import { Bells } from "../events/bells.ts"
import type { StreamPage } from "../events/pages.ts"
import { foldLog } from "../events/transcript.ts"
import type { Keys } from "../keys/keys.ts"
import type { Logger } from "../logging/logger.ts"
import type { Sandboxes } from "../sandboxes/sandboxes.ts"
import type { Clock } from "../sandboxes/state/clock.ts"
import type { FailPoint } from "../sandboxes/state/fail-point.ts"
import type { Store } from "../store/open.ts"
import { agentChanged } from "./agent-changed.ts"
import { Driver } from "./driver.ts"
import type { EndOverdueParts } from "./end-overdue.ts"
import { openPresence } from "./presence.ts"
import { removeRows, requireIdle, untilIdle } from "./remove.ts"
import {
  isPending,
  type OpenPrompt,
  type SessionWithAsks,
  type StoredPrompt,
  type StoredSession,
} from "./rows.ts"
import type { Stored } from "./stored.ts"
import { tidy } from "./tidy.ts"

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
   * Gives the events after that number, then new ones, in order, without a gap or a repeat, until the signal fires. A
   * slow reader holds up nobody. Fails at once where there is no such session.
   */
  events(session: SessionId, after: number, signal: AbortSignal): Promise<AsyncIterable<StreamPage>>
}

export interface SessionsParts {
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

const FORGET_EVERY_MS = 3600 * 1000

/** Sessions that hold too much are looked for more often: a full session leaves output out of its log. */
const TIDY_EVERY_MS = 60_000

/** Opens the sessions, and resumes the prompts of an earlier server in their sandboxes. */
export const openSessions = async (
  parts: SessionsParts,
): Promise<Sessions & { closeAll(): Promise<void> }> => {
  const { stored, sandboxes, keys, clock } = parts
  const { rows, changes, log } = stored
  const used = { ...sandboxes.use, ...sandboxes.running }
  const presence = openPresence({ ...parts, sandboxes: used, rows })
  const driver = new Driver({ ...parts, sandboxes: used, presence })
  stored.onChange((session) => driver.wake(session))
  await driver.start()
  const forget = async (): Promise<void> => {
    if (parts.keepEventsMs === null) return
    try {
      await log.removeBefore(clock.now() - parts.keepEventsMs)
    } catch (err) {
      parts.log.warn(
        { op: "events.forget", err },
        "removing old events failed; retrying in an hour",
      )
    }
  }
  /** Rings when a session is removed, so that its followers learn that it no longer exists. */
  const removals = new Bells<SessionId>()
  void forget()
  const forgetting = setInterval(() => void forget(), FORGET_EVERY_MS).unref()
  const tidying = setInterval(
    () => void tidy({ ...parts, events: log, rest: stored.rest }),
    TIDY_EVERY_MS,
  ).unref()

  /** Refuses a prompt that could not run, where that is known when it is sent. */
  const check = async (session: StoredSession): Promise<void> => {
    const { id, workspace, agent: before, state } = session
    // A closed session is refused where the prompt is accepted; its workspace may be gone as well.
    if (state === "closed") return
    const { agent: wanted } = await sandboxes.workspaces.get(workspace)
    const isOther = wanted.kind !== before.kind
    // A session that keeps its sandbox goes on there, with the agent that it began with.
    if (isOther && before.kind !== "shell" && (await presence.of(id)) === undefined)
      throw agentChanged({ session: id, workspace, was: before.kind, is: wanted.kind })
    const agent = isOther ? before : wanted
    await keys.read(agent.keys)
  }

  const withWait = (session: SessionWithAsks): Session => {
    const waits = session.pending.map((prompt) => driver.waitOf(prompt))
    return { ...session, waitsFor: waits.find((wait) => wait !== null) ?? null }
  }
  const view = async (session: SessionId): Promise<Session> => withWait(await rows.view(session))
  const shownPrompt = (prompt: StoredPrompt, next: OpenPrompt | undefined): Prompt => {
    const isBehind = prompt.state === "queued" && next !== undefined && next.id !== prompt.id
    return { ...prompt, waitsFor: isBehind ? behind(prompt, next) : driver.waitOf(prompt.id) }
  }
  const prompts = async (session: SessionId): Promise<Prompt[]> => {
    const [all, next] = await Promise.all([rows.prompts(session), rows.next(session)])
    return all.map((prompt) => shownPrompt(prompt, next))
  }

  return {
    create: async ({ workspace, replace, onInterrupt, agent: own }, signal) => {
      const { slug, agent: wanted } = await specOf(sandboxes, workspace)
      const agent = own === undefined ? wanted : AgentSpec.parse(own)
      if (onInterrupt === "continue" && agent.kind === "shell")
        throw new BerthError("input.invalid", "the agent shell has no conversation to go on with", {
          details: { path: "onInterrupt", allowed: "wait" },
        })
      await keys.read(wanted.keys)
      // The workspace is described last, so that a refused session changes nothing.
      const isPrompted = agent.kind === wanted.kind
      if (typeof workspace !== "string")
        await sandboxes.workspaces.save(workspace, { replace, isPrompted }, signal)
      const created = { workspace: slug, agent, onInterrupt, atMs: clock.now() }
      return withWait(await rows.create(created))
    },
    list: async () => (await rows.list()).map(withWait),
    get: (session) => view(session),
    close: async (session) => {
      await changes.close(session)
      await presence.end(session)
      return await view(session)
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
      if (!isKnown) await check(await rows.get(session))
      const accepted = await changes.accept(session, sent)
      return shownPrompt(accepted, await rows.next(session))
    },
    prompts,
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
      await sandboxes.running.kept(prompt.sandbox).answerPrompt(prompt.id, answer)
    },
    transcript: async (session) => {
      const { lastEvent } = await rows.get(session)
      const shown = await prompts(session)
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
    closeAll: async () => {
      clearInterval(forgetting)
      clearInterval(tidying)
      presence.close()
      await driver.close()
    },
  }
}

/** The wait of a prompt behind another of its session, since it was accepted. */
const behind = ({ createdAt }: StoredPrompt, next: OpenPrompt): PromptWait => ({
  code: "prompt.earlier",
  message: `${next.id} of the same session ${standingOf(next)}`,
  since: createdAt,
})

const standingOf = ({ state, sandbox }: OpenPrompt): string => {
  if (!isPending(state)) return `was stopped, and ${sandbox} has not confirmed that it has ended`
  return state === "running" ? "runs" : "comes first"
}

const specOf = async (
  sandboxes: Pick<Sandboxes, "workspaces">,
  workspace: CreateSession["workspace"],
): Promise<Pick<WorkspaceSpec, "slug" | "agent">> =>
  typeof workspace === "string" ? await sandboxes.workspaces.get(workspace) : workspace
