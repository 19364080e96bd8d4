import { chmodSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { writeLockHolder } from "@berth/local/lock-holder"
import { ensureToken } from "@berth/local/token"
import type { EventBody } from "@berth/protocol/event"
import { newId, type PromptId } from "@berth/protocol/ids"
import type { AskAnswer } from "@berth/protocol/session"
import { WorkspaceSpec } from "@berth/protocol/workspace"
import { listen } from "@berth/server/api/listen"
import { createApi } from "@berth/server/api/server"
import { stopApi } from "@berth/server/api/stop"
import type { StoredEvent } from "@berth/server/events/pages"
import { createLogger } from "@berth/server/logging/logger"
import { Secrets } from "@berth/server/logging/secrets"
import type { Sandboxes } from "@berth/server/sandboxes/sandboxes"
import type { Sessions } from "@berth/server/sessions/sessions"
import { BERTH } from "@berth/testing/berth"
import { onTestFinished } from "vitest"

/** The events of a played agent for a prompt, and for an answer. */
export interface Part {
  readonly onPrompt: (prompt: PromptId) => readonly EventBody[]
  readonly onAnswer: (prompt: PromptId, answer: AskAnswer) => readonly EventBody[]
}

/** The asks that no event answers. */
const openAsks = (events: readonly { readonly at: string; readonly body: EventBody }[]) =>
  events.flatMap(({ at: since, body }) => {
    if (body.type !== "permission.asked" && body.type !== "question.asked") return []
    const { ask, prompt, type } = body
    const isAnswered = events.some(
      ({ body: other }) => other.type.endsWith(".answered") && "ask" in other && other.ask === ask,
    )
    if (isAnswered) return []
    return type === "permission.asked"
      ? [{ kind: "permission", prompt, ask, since, about: body.about, choices: [] }]
      : [{ kind: "question", prompt, ask, since, about: body.question, choices: body.choices }]
  })

const asServerSent = ({ sequence, type, json }: StoredEvent): Buffer =>
  Buffer.from(`id: ${sequence}\nevent: ${type}\ndata: ${json}\n\n`)

/** Starts a server with the real API, whose only session is with an agent that plays a part. */
export const playSession = async ({ onPrompt, onAnswer }: Part) => {
  const dataDir = mkdtempSync(join(tmpdir(), "berth-played-session-"))
  chmodSync(dataDir, 0o700)
  const [id, prompt] = [newId.session(), newId.prompt()]
  const log: StoredEvent[] = []
  const answers: AskAnswer[] = []
  let bell = Promise.withResolvers<void>()
  const say = (bodies: readonly EventBody[]) => {
    for (const body of bodies) {
      const sequence = log.length + 1
      const json = JSON.stringify({ sequence, at: new Date().toISOString(), body })
      log.push({ sequence, type: body.type, json })
    }
    bell.resolve()
    bell = Promise.withResolvers()
  }
  const createdAt = new Date().toISOString()
  const workspace = WorkspaceSpec.parse({ slug: "app" })
  const session = {
    id,
    workspace: "app",
    agent: workspace.agent,
    state: "open",
    createdAt,
  }
  const sessions = {
    create: async () => view(),
    list: async () => [view()],
    transcript: async () => ({ lastEvent: log.length, turns: [] }),
    stop: async () => [prompt],
    get: async () => view(),
    prompt: async (_session: unknown, { text }: { text: string }) => {
      say(onPrompt(prompt))
      return {
        id: prompt,
        session: id,
        number: 1,
        text,
        attachments: [],
        state: "queued",
        reason: null,
        sandbox: null,
        deadlineMs: null,
        createdAt,
        startedAt: null,
        endedAt: null,
        continues: null,
        waitsFor: null,
      }
    },
    answer: async (_session: unknown, answer: AskAnswer) => {
      answers.push(answer)
      say(onAnswer(prompt, answer))
    },
    events: async (_session: unknown, after: number, signal: AbortSignal) =>
      (async function* () {
        const gone = new Promise<void>((resolve) => {
          signal.addEventListener("abort", () => resolve())
        })
        for (let seen = after; !signal.aborted; ) {
          const rung = bell.promise
          const events = log.slice(seen)
          seen = log.length
          if (events.length > 0) yield { last: seen, pieces: events.map(asServerSent) }
          else await Promise.race([rung, gone])
        }
      })(),
  } as unknown as Sessions
  const view = () => ({
    ...session,
    onInterrupt: "wait",
    lastEvent: log.length,
    pending: [],
    waitsFor: null,
    asks: openAsks(log.map(({ json }) => JSON.parse(json))),
  })
  const secrets = new Secrets()
  const destination = { write: () => {} }
  const api = createApi({
    log: await createLogger({ level: "error", pretty: false, secrets, destination }),
    token: await ensureToken(dataDir),
    sandboxes: async () =>
      ({
        workspaces: { get: async () => workspace },
        views: { list: async () => [] },
      }) as unknown as Sandboxes,
    sessions: async () => sessions,
    facts: {
      version: "0.0.0",
      pid: process.pid,
      installationId: newId.installation(),
      dataDir,
      backend: "embedded",
      startedAt: new Date(),
      startedAtMs: performance.now(),
    },
  })
  writeLockHolder(dataDir, await listen(api, { host: "127.0.0.1", port: 0 }))
  onTestFinished(async () => {
    await stopApi(api, 0)
    rmSync(dataDir, { recursive: true })
  })
  return {
    id,
    answers,
    env: { PATH: process.env.PATH, HOME: dataDir },
    command: ([name = "", ...args]: readonly string[]) =>
      [...BERTH, name, "--data-dir", dataDir, ...args] as const,
  }
}
