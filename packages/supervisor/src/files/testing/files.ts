import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
} from "node:fs"
import { type IncomingMessage, request } from "node:http"
import { createRequire } from "node:module"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { Readable } from "node:stream"
import { buffer } from "node:stream/consumers"
import { pipeline } from "node:stream/promises"
import { fileQuery } from "@berth/protocol/files"
import { isBuilt } from "@berth/testing/berth"
import { onTestFinished } from "vitest"
import { AUTHORIZED, serve } from "../../bridge/testing/supervisor.ts"
import { Dispatch } from "../../features/dispatch.ts"
import type { FeatureParts } from "../../features/parts.ts"
import { systemClock } from "../../processes/clock.ts"
import { Pipes } from "../../processes/output/pipes.ts"
import { ProcessSet } from "../../processes/set.ts"
import type { User } from "../../processes/user.ts"
import { type FilesOptions, filesFeature } from "../feature.ts"
import { WORKER_FLAGS, type WorkerCommand } from "../worker-process.ts"

/** Starts the worker's bundle, which takes a third of the time, or its sources if they changed since the build. */
const WORKER: WorkerCommand = [
  process.execPath,
  ...WORKER_FLAGS,
  ...(isBuilt
    ? [join(import.meta.dirname, "../../../dist/bundle/files-worker.cjs")]
    : ["--conditions=source", join(import.meta.dirname, "../worker.ts")]),
]

/** A user of the sandbox, if the test may choose one. */
export const SOMEONE: User | undefined =
  process.getuid?.() === 0 ? { uid: 12_321, gid: 12_321 } : undefined

type Query = Parameters<typeof fileQuery>[0]

export interface Asked {
  readonly body?: unknown
  readonly bytes?: Buffer | Readable
  readonly headers?: Record<string, string>
}

/** Serves a supervisor's socket with the files feature, and a workspace that belongs to another user. */
export const serveFiles = async ({
  workspaceAt,
  ...options
}: FilesOptions & { readonly workspaceAt?: string } = {}) => {
  const root = mkdtempSync(join(tmpdir(), "berth-files-test-"))
  const at = (name: string) => join(root, name)
  const places = {
    workspace: workspaceAt ?? at("workspace"),
    home: at("home"),
    toolbox: at("toolbox"),
    logs: at("logs"),
  }
  for (const path of [places.home, places.logs, join(places.toolbox, "bin"), places.workspace])
    mkdirSync(path, { recursive: true })
  symlinkSync(ripgrep(), join(places.toolbox, "bin/rg"))
  // As in a sandbox: other users can reach the workspace, but not root's own directories.
  chmodSync(root, 0o755)
  chmodSync(places.logs, 0o700)
  if (SOMEONE !== undefined) chownSync(places.workspace, SOMEONE.uid, SOMEONE.gid)
  const pipes = new Pipes(places.logs)
  const parts: FeatureParts = {
    clock: systemClock,
    pipes,
    places,
    user: SOMEONE,
    environment: {},
    processes: new ProcessSet({ clock: systemClock, pipes, onEvent: () => {} }),
  }
  const features = new Dispatch({
    files: async () => filesFeature(parts, { command: WORKER, ...options }),
  })
  const served = await serve({ features })
  onTestFinished(async () => {
    await features.close()
    rmSync(root, { recursive: true, force: true })
  })
  const url = (path: string, query: Query) => `${path}?${fileQuery(query)}`
  const open = (method: string, path: string, query: Query = {}, asked: Asked = {}) =>
    send(served.path, method, url(path, query), asked)
  const call = async (method: string, path: string, query: Query = {}, asked: Asked = {}) => {
    const response = await open(method, path, query, asked)
    const bytes = await buffer(response)
    const isJson = response.headers["content-type"] === "application/json"
    const body = isJson ? JSON.parse(bytes.toString()) : undefined
    return { status: response.statusCode, headers: response.headers, bytes, body }
  }
  return { ...served, root, features, workspace: places.workspace, open, call, url }
}

/** Finds the pid of the worker of a workspace. */
export const workerPid = (workspace: string): number | undefined =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .find((pid) => {
      try {
        const words = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0")
        return words.some((word) => word.startsWith(`{"workspace":"${workspace}"`))
      } catch {
        return false
      }
    })

const send = async (
  socketPath: string,
  method: string,
  path: string,
  { body, bytes, headers }: Asked,
) => {
  const sent = request({
    socketPath,
    method,
    path,
    agent: false,
    headers: { ...AUTHORIZED, ...headers },
  })
  const answered = new Promise<IncomingMessage>((resolve, reject) => {
    sent.on("response", resolve)
    sent.on("error", reject)
  })
  if (bytes instanceof Readable) await pipeline(bytes, sent).catch(() => {})
  else sent.end(bytes ?? (body === undefined ? undefined : JSON.stringify(body)))
  return await answered
}

const ripgrep = (): string => {
  const { resolve } = createRequire(import.meta.url)
  return join(dirname(resolve(`@vscode/ripgrep-linux-${process.arch}/package.json`)), "bin/rg")
}
