import type { Feature, HttpRoute } from "../features/feature.ts"
import type { FeatureParts } from "../features/parts.ts"
import { download } from "./download.ts"
import { relay, workerConnections } from "./relay.ts"
import { watchSocket } from "./watch-socket.ts"
import { bundledWorker, type WorkerCommand, WorkerProcess } from "./worker-process.ts"

/** Limit for a worker that neither reads nor answers: it was stopped, or waits for a dead disk. */
const SILENCE_LIMIT_MS = 60_000

type Route = Pick<HttpRoute, "method" | "path">

/** The routes that the worker answers. */
export const DOWNLOAD: Route = { method: "GET", path: "/files/content" }
export const RELAYED: readonly Route[] = [
  { method: "PUT", path: "/files/content" },
  { method: "POST", path: "/files/write" },
  { method: "GET", path: "/files/list" },
  { method: "GET", path: "/files/stat" },
  { method: "POST", path: "/files/mkdir" },
  { method: "POST", path: "/files/move" },
  { method: "DELETE", path: "/files" },
  { method: "GET", path: "/files/search" },
  { method: "GET", path: "/files/archive" },
  { method: "PUT", path: "/files/archive" },
]

export interface FilesOptions {
  readonly command?: WorkerCommand
  readonly silenceLimitMs?: number
}

/** The files feature: see `@berth/protocol/files`. All of it is done by a process that runs as the user. */
export const filesFeature = (
  parts: FeatureParts,
  { command = bundledWorker(parts.places), silenceLimitMs = SILENCE_LIMIT_MS }: FilesOptions = {},
): Feature => {
  const worker = new WorkerProcess(parts, command)
  const connections = workerConnections()
  const handle = relay(worker, connections, silenceLimitMs)
  return {
    http: [
      { ...DOWNLOAD, handle: download(worker, silenceLimitMs) },
      ...RELAYED.map((route) => ({ ...route, handle })),
    ],
    sockets: [watchSocket(worker)],
    close: async () => {
      connections.destroy()
      await worker.close()
    },
  }
}
