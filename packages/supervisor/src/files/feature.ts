import type { Feature, HttpRoute } from "../features/feature.ts"
import type { FeatureParts } from "../features/parts.ts"
import { relay, workerConnections } from "./relay.ts"
import { watchSocket } from "./watch-socket.ts"
import { bundledWorker, type WorkerCommand, WorkerProcess } from "./worker-process.ts"

/** What the worker answers. */
export const RELAYED: readonly Pick<HttpRoute, "method" | "path">[] = [
  { method: "GET", path: "/files/content" },
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

/** Files: see `@berth/protocol/files`. All of it is done by a process of the user. */
export const filesFeature = (
  parts: FeatureParts,
  command: WorkerCommand = bundledWorker(parts.places),
): Feature => {
  const worker = new WorkerProcess(parts, command)
  const connections = workerConnections()
  const handle = relay(worker, connections)
  return {
    http: RELAYED.map((route) => ({ ...route, handle })),
    sockets: [watchSocket(worker)],
    close: async () => {
      connections.destroy()
      await worker.close()
    },
  }
}
