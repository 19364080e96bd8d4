import { BerthError } from "@berth/protocol/errors"
import { terminalStart } from "../checks/forms/terminals.ts"
import type { ActivityTracker } from "../features/activity-tracker.ts"
import { readJson, sendJson } from "../features/body.ts"
import type { Feature } from "../features/feature.ts"
import type { FeatureParts } from "../features/parts.ts"
import type { Terminal } from "./terminal.ts"
import { Terminals } from "./terminals.ts"

/** The terminals feature, as `terminals.ts` of the protocol describes it. */
export const terminalsFeature = (
  parts: FeatureParts,
  tracker: ActivityTracker,
  maxRunning?: number,
): Feature => {
  const terminals = new Terminals(parts, tracker, maxRunning)
  return {
    http: [
      {
        method: "POST",
        path: "/terminals",
        handle: async ({ request, response }) => {
          const wanted = await readJson(request, terminalStart)
          sendJson(response, 201, (await terminals.start(wanted)).info())
        },
      },
      {
        method: "GET",
        path: "/terminals",
        handle: async ({ response }) => sendJson(response, 200, { terminals: terminals.list() }),
      },
      {
        method: "GET",
        path: "/terminals/:id",
        handle: async ({ params, response }) =>
          sendJson(response, 200, terminals.find(params.id ?? "").info()),
      },
      {
        method: "DELETE",
        path: "/terminals/:id",
        handle: async ({ params, response }) =>
          sendJson(response, 200, await terminals.remove(params.id ?? "")),
      },
    ],
    sockets: [
      {
        path: "/terminals/:id/attach",
        open: async ({ params, query }) => {
          const terminal = terminals.findForViewer(params.id ?? "")
          const from = offsetOf(query.get("from"), terminal)
          return (websocket) => terminal.attach(websocket, from)
        },
      },
    ],
    close: () => terminals.close(),
  }
}

/** Parses the offset. Default: the start of the kept output. */
const offsetOf = (text: string | null, terminal: Terminal): number => {
  const { from, to } = terminal.info().output
  if (text === null) return from
  const offset = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN
  if (offset <= to) return offset
  throw new BerthError("input.invalid", `from is not a number of bytes up to ${to}`)
}
