import { BerthError } from "@berth/protocol/errors"
import { commandSignalRequest, commandStart } from "../checks/forms/commands.ts"
import type { ActivityTracker } from "../features/activity-tracker.ts"
import { readJson, sendJson } from "../features/body.ts"
import type { Feature } from "../features/feature.ts"
import type { FeatureParts } from "../features/parts.ts"
import { attach } from "./attach.ts"
import { startIn } from "./client-input.ts"
import { Commands } from "./commands.ts"
import { run } from "./run.ts"

/** The commands feature, as `commands.ts` of the protocol describes it. */
export const commandsFeature = (parts: FeatureParts, tracker: ActivityTracker): Feature => {
  const commands = new Commands(parts, tracker)
  return {
    http: [
      {
        method: "POST",
        path: "/commands",
        handle: async ({ request, response, signal }) => {
          const start = await readJson(request, commandStart)
          const started = await commands.runInBackground(start, signal)
          sendJson(response, 201, started.info())
        },
      },
      {
        method: "GET",
        path: "/commands",
        handle: async ({ response }) => sendJson(response, 200, { commands: commands.list() }),
      },
      {
        method: "GET",
        path: "/commands/:id",
        handle: async ({ params, response }) =>
          sendJson(response, 200, commands.info(params.id ?? "")),
      },
      {
        method: "POST",
        path: "/commands/:id/signal",
        handle: async ({ params, request, response }) => {
          const { signal } = await readJson(request, commandSignalRequest)
          commands.find(params.id ?? "").signal(signal)
          response.writeHead(204).end()
        },
      },
      {
        method: "DELETE",
        path: "/commands/:id",
        handle: async ({ params, response }) =>
          sendJson(response, 200, await commands.remove(params.id ?? "")),
      },
    ],
    sockets: [
      {
        path: "/commands/run",
        open: async ({ query, signal }) => {
          const start = startIn(query)
          return (websocket) => void run(websocket, start, { commands, parts, signal })
        },
      },
      {
        path: "/commands/:id/attach",
        open: async ({ params, query, signal }) => {
          const shown = commands.findInBackground(params.id ?? "")
          const offsets = {
            stdout: offset(query, "stdout", shown.output.stdout.to),
            stderr: offset(query, "stderr", shown.output.stderr.to),
          }
          return (websocket) => void attach(websocket, shown, offsets, signal)
        },
      },
    ],
    close: () => commands.close(),
  }
}

/** Reads an offset. It cannot be beyond the output so far. */
const offset = (query: URLSearchParams, stream: string, atMost: number): number => {
  const given = query.get(stream) ?? "0"
  if (!/^\d{1,15}$/.test(given) || Number(given) > atMost)
    throw new BerthError("input.invalid", `${stream} is not a number from 0 to ${atMost}`)
  return Number(given)
}
