import { type ForkLine, ForkSandbox } from "@berth/protocol/sandboxes"
import type { FastifyInstance } from "fastify"
import type { Sandboxes } from "../../sandboxes/sandboxes.ts"
import { berthErrorOf } from "../errors.ts"
import { openLines } from "../lines.ts"
import { parseInput, sandboxIdOf } from "../parse.ts"
import { untilGone } from "../until-gone.ts"
import type { OfSandbox } from "./sandboxes.ts"

/** Forks a sandbox, without a deadline, and reports the progress. The fork is cancelled when its client goes. */
export const forkRoute = (
  api: FastifyInstance,
  provide: () => Promise<Pick<Sandboxes, "copies" | "views">>,
): void => {
  api.post<OfSandbox>("/v1/sandboxes/:id/fork", async (request, reply) => {
    const id = sandboxIdOf(request.params.id)
    const { to } = parseInput(request.body, ForkSandbox)
    const signal = untilGone(reply.raw)
    const sandboxes = await provide()
    // From here on the call has no deadline of its own.
    reply.hijack()
    reply.raw.setHeader("x-request-id", request.id)
    const lines = openLines<ForkLine>(reply.raw, {
      type: "progress",
      stage: "copying",
      files: 0,
      of: 0,
    })
    try {
      const { sandbox, frozenMs } = await sandboxes.copies.fork(id, to, {
        signal,
        onProgress: (progress) => lines.tell({ type: "progress", ...progress }),
      })
      const view = await sandboxes.views.get(sandbox, signal)
      lines.end({ type: "forked", sandbox: view, stoodStillMs: Math.round(frozenMs) })
    } catch (thrown) {
      const error = berthErrorOf(thrown, undefined)
      request.failure = error
      lines.fail(error, { type: "failed", ...error.toJSON() })
    }
  })
}
