import { MAX_PROMPT_CHARS } from "@berth/protocol/bridge-limits"
import { BerthError } from "@berth/protocol/errors"
import { AskAnswer } from "@berth/protocol/session"
import { MAX_ATTACHMENT_BYTES, MAX_ATTACHMENTS } from "@berth/protocol/session-limits"
import { CreatePrompt, CreateSession, StopPrompts } from "@berth/protocol/sessions"
import type { FastifyInstance } from "fastify"
import { z } from "zod"
import type { Sessions } from "../../sessions/sessions.ts"
import { berthErrorOf } from "../errors.ts"
import { sendEvents } from "../event-stream.ts"
import { parseInput, sessionIdOf } from "../parse.ts"
import { Streams } from "../streams.ts"
import { untilGone } from "../until-gone.ts"
import { CREATE_DEADLINE_MS, RemoveQuery } from "./sandboxes.ts"

interface OfSession {
  Params: { id: string }
}

/**
 * The largest prompt as JSON: files in base64, each with its name, and a text of which every character may have to be
 * escaped.
 */
const PROMPT_BODY_BYTES =
  Math.ceil(MAX_ATTACHMENT_BYTES / 3) * 4 +
  MAX_ATTACHMENTS * 2048 +
  MAX_PROMPT_CHARS * '"\\u0000'.length

const Key = z.object({ "idempotency-key": CreatePrompt.shape.key })

/** A browser that connects again sends the header beside the query that it began with: the header is newer. */
const After = z.object({ after: z.coerce.number().int().min(0).default(0) })
const LastEvent = z.object({ "last-event-id": z.coerce.number().int().min(0).optional() })

export interface SessionRoutesOptions {
  /** The error that it throws is the answer. */
  readonly provide: () => Promise<Sessions>
  readonly heartbeatMs: number
}

type Provide = SessionRoutesOptions["provide"]

export const sessionRoutes = (api: FastifyInstance, options: SessionRoutesOptions): void => {
  ownRoutes(api, options.provide)
  promptRoutes(api, options.provide)
  eventRoutes(api, options)
}

/** The calls for sessions themselves. */
const ownRoutes = (api: FastifyInstance, provide: Provide): void => {
  // The system of a new workspace may be an image that has to be fetched.
  api.post("/v1/sessions", { handlerTimeout: CREATE_DEADLINE_MS }, async (request, reply) => {
    const wanted = parseInput(request.body, CreateSession)
    const session = await (await provide()).create(wanted, untilGone(reply.raw))
    return await reply.code(201).header("location", `/v1/sessions/${session.id}`).send(session)
  })

  api.get("/v1/sessions", async () => ({ sessions: await (await provide()).list() }))

  api.get<OfSession>("/v1/sessions/:id", async (request) => {
    const id = sessionIdOf(request.params.id)
    return await (await provide()).get(id)
  })

  api.delete<OfSession>("/v1/sessions/:id", async (request, reply) => {
    const id = sessionIdOf(request.params.id)
    const { force } = parseInput(request.query, RemoveQuery)
    await (await provide()).remove(id, { force })
    return await reply.code(204).send()
  })

  api.post<OfSession>("/v1/sessions/:id/close", async (request, reply) => {
    const id = sessionIdOf(request.params.id)
    await (await provide()).close(id)
    return await reply.code(204).send()
  })
}

/** The calls for the prompts of a session. */
const promptRoutes = (api: FastifyInstance, provide: Provide): void => {
  api.post<OfSession>(
    "/v1/sessions/:id/prompts",
    { bodyLimit: PROMPT_BODY_BYTES },
    async (request, reply) => {
      const id = sessionIdOf(request.params.id)
      const prompt = parseInput(request.body, CreatePrompt)
      const key = prompt.key ?? parseInput(request.headers, Key)["idempotency-key"]
      const accepted = await (await provide()).prompt(id, { ...prompt, key })
      return await reply.code(202).send(accepted)
    },
  )

  api.get<OfSession>("/v1/sessions/:id/prompts", async (request) => {
    const id = sessionIdOf(request.params.id)
    return { prompts: await (await provide()).prompts(id) }
  })

  api.post<OfSession>("/v1/sessions/:id/stop", async (request) => {
    const id = sessionIdOf(request.params.id)
    const which = parseInput(request.body ?? {}, StopPrompts)
    return { prompts: await (await provide()).stop(id, which) }
  })

  api.post<OfSession>("/v1/sessions/:id/answers", async (request, reply) => {
    const id = sessionIdOf(request.params.id)
    const answer = parseInput(request.body, AskAnswer)
    await (await provide()).answer(id, answer)
    return await reply.code(204).send()
  })

  api.get<OfSession>("/v1/sessions/:id/messages", async (request) => {
    const id = sessionIdOf(request.params.id)
    return await (await provide()).transcript(id)
  })
}

/** The stream of a session's events. */
const eventRoutes = (
  api: FastifyInstance,
  { provide, heartbeatMs }: SessionRoutesOptions,
): void => {
  const streams = new Streams()
  const stopping = new AbortController()
  api.addHook("preClose", async () => {
    stopping.abort(new BerthError("server.stopping", "the server is stopping"))
  })
  api.get<OfSession>(
    "/v1/sessions/:id/events",
    { exposeHeadRoute: false },
    async (request, reply) => {
      streams.check()
      const id = sessionIdOf(request.params.id)
      const { after } = parseInput(request.query, After)
      const { "last-event-id": last = after } = parseInput(request.headers, LastEvent)
      const signal = AbortSignal.any([untilGone(reply.raw), stopping.signal])
      const events = await (await provide()).events(id, last, signal)
      // From here on the stream has no deadline, and a failure can only cut it off.
      reply.hijack()
      reply.raw.setHeader("x-request-id", request.id)
      try {
        await sendEvents(reply.raw, { streams, events, signal, heartbeatMs })
      } catch (thrown) {
        request.failure = berthErrorOf(thrown, undefined)
      }
    },
  )
}
