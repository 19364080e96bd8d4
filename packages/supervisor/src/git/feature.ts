import { once } from "node:events"
import type { ServerResponse } from "node:http"
import { resolve } from "node:path"
import type { Readable } from "node:stream"
import { BerthError } from "@berth/protocol/errors"
import {
  gitBundleQuery,
  gitCommitRequest,
  gitDiffQuery,
  gitLogQuery,
  gitQuery,
} from "../checks/forms/git.ts"
import { readJson, sendJson } from "../features/body.ts"
import type { Called, Feature } from "../features/feature.ts"
import type { FeatureParts } from "../features/parts.ts"
import { readQuery } from "../features/read-query.ts"
import { bundleOf } from "./bundle.ts"
import { COUNTED, parseChanges } from "./changes.ts"
import { commit } from "./commit.ts"
import { diffOf, UNIFIED } from "./diff.ts"
import { logOf } from "./log.ts"
import { statusOf } from "./status.ts"

export const gitFeature = (parts: FeatureParts): Feature => {
  const running = new Set<Promise<unknown>>()
  const directoryOf = (repo: string) => resolve(parts.places.workspace, repo)
  const partsOf = ({ signal }: Called) => ({ ...parts, signal })
  const route = (
    method: "GET" | "POST",
    path: string,
    handle: Feature["http"][number]["handle"],
  ): Feature["http"][number] => ({
    method,
    path,
    handle: (call) => {
      const handled = handle(call).finally(() => running.delete(handled))
      running.add(handled)
      return handled
    },
  })
  return {
    http: [
      route("GET", "/git/status", async (call) => {
        const { repo } = readQuery(call.query, gitQuery)
        sendJson(call.response, 200, await statusOf(directoryOf(repo), partsOf(call)))
      }),
      route("GET", "/git/changes", async (call) => {
        const { repo, ...query } = readQuery(call.query, gitDiffQuery)
        const directory = directoryOf(repo)
        const changes = await diffOf(directory, query, COUNTED, partsOf(call), parseChanges)
        sendJson(call.response, 200, changes)
      }),
      route("GET", "/git/diff", async (call) => {
        const { repo, ...query } = readQuery(call.query, gitDiffQuery)
        const send = sendTo(call, "text/x-diff")
        await diffOf(directoryOf(repo), query, UNIFIED, partsOf(call), send)
        end(call.response, "text/x-diff")
      }),
      route("GET", "/git/log", async (call) => {
        const { repo, ...query } = readQuery(call.query, gitLogQuery)
        sendJson(call.response, 200, await logOf(directoryOf(repo), query, partsOf(call)))
      }),
      route("POST", "/git/commit", async (call) => {
        const { repo, ...wanted } = await readJson(call.request, gitCommitRequest)
        sendJson(call.response, 201, await commit(directoryOf(repo), wanted, partsOf(call)))
      }),
      route("GET", "/git/bundle", async (call) => {
        const { repo, ...query } = readQuery(call.query, gitBundleQuery)
        const send = sendTo(call, BUNDLE)
        if (await bundleOf(directoryOf(repo), query, partsOf(call), send))
          end(call.response, BUNDLE)
        else call.response.writeHead(204).end()
      }),
    ],
    sockets: [],
    // The calls were cancelled by their signals before this.
    close: async () => void (await Promise.allSettled(running)),
  }
}

const BUNDLE = "application/x-git-bundle"

/** Sends output as fast as the client reads. Does not end the answer, as it is complete only if git succeeds. */
const sendTo =
  ({ response, signal }: Called & { response: ServerResponse }, type: string) =>
  async (stdout: Readable): Promise<void> => {
    for await (const chunk of stdout) {
      if (!response.headersSent) response.writeHead(200, { "content-type": type })
      if (!response.write(chunk)) await once(response, "drain", { signal })
    }
  }

/** Ends an answer. An empty diff has not sent its head yet. */
const end = (response: ServerResponse, type: string): void => {
  if (response.destroyed) throw new BerthError("cancelled", "whoever called is gone")
  if (!response.headersSent) response.writeHead(200, { "content-type": type })
  response.end()
}
