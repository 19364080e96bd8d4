import { spawn } from "node:child_process"
import { once } from "node:events"
import { BerthError } from "@berth/protocol/errors"
import type { SandboxId } from "@berth/protocol/ids"
import { z } from "zod"
import { PLAIN_ENV } from "../../host/run.ts"
import { MOUNT_ENV } from "./runtime.ts"

/** What a sandbox's first process may write before the log starts anew: enough for the story of a boot. */
export const MAX_LOG_BYTES = 1024 * 1024

export interface ConmonOptions {
  readonly conmon: string
  readonly sandbox: SandboxId
  readonly runtime: readonly [string, ...string[]]
  readonly bundle: string
  readonly log: string
  readonly initPid: string
  readonly monitorPid: string
  readonly exits: string
  readonly sockets: string
}

/** What conmon says over its pipe: the pid of the container's first process, or -1 and the runtime's words. */
const SyncMessage = z.object({ data: z.int(), message: z.string().optional() })

/** The descriptor of the pipe on which conmon reports, as it sees it. */
const SYNC_FD = 3

/**
 * Has conmon create the container, and gives the pid of its first process. conmon leaves this process's
 * tree at once: it outlives the server, keeps the sandbox's output in a bounded log and its exit status in
 * a file.
 */
export const createUnderConmon = async (
  options: ConmonOptions,
  signal: AbortSignal,
): Promise<number> => {
  signal.throwIfAborted()
  const child = spawn(options.conmon, conmonArguments(options), {
    cwd: "/",
    env: { ...PLAIN_ENV, ...MOUNT_ENV, _OCI_SYNCPIPE: `${SYNC_FD}` },
    detached: true,
    stdio: ["ignore", "ignore", "pipe", "pipe"],
  })
  const sync = child.stdio[SYNC_FD] as NodeJS.ReadableStream & { destroy(): void }
  const complaints = collect(child.stderr)
  const abort = () => sync.destroy()
  signal.addEventListener("abort", abort, { once: true })
  try {
    if (child.pid === undefined) await once(child, "spawn")
    const line = await firstLine(sync)
    signal.throwIfAborted()
    return parseSync(line, options.sandbox, complaints())
  } finally {
    signal.removeEventListener("abort", abort)
    sync.destroy()
    child.stderr?.destroy()
    child.unref()
  }
}

const conmonArguments = (options: ConmonOptions): string[] => {
  const [runtime, ...runtimeArguments] = options.runtime
  return [
    ["--api-version", "1"],
    ["--cid", options.sandbox],
    ["--cuuid", options.sandbox],
    ["--runtime", runtime],
    ...runtimeArguments.map((argument) => [`--runtime-arg=${argument}`]),
    ["--bundle", options.bundle],
    ["--container-pidfile", options.initPid],
    ["--conmon-pidfile", options.monitorPid],
    ["--exit-dir", options.exits],
    ["--socket-dir-path", options.sockets],
    ["--full-attach"],
    ["--log-path", `k8s-file:${options.log}`],
    ["--log-size-max", `${MAX_LOG_BYTES}`],
    ["--log-level", "error"],
  ].flat()
}

const firstLine = async (stream: NodeJS.ReadableStream): Promise<string> => {
  let text = ""
  try {
    for await (const chunk of stream) {
      text += chunk
      if (text.includes("\n")) break
    }
  } catch {
    // A pipe that breaks is a conmon that died: the empty line says so.
  }
  return text
}

const parseSync = (line: string, sandbox: SandboxId, complaints: string): number => {
  const message = SyncMessage.safeParse(parseJson(line)).data
  if (message !== undefined && message.data > 0) return message.data
  throw new BerthError("backend.engine_failed", "the container could not be created", {
    details: { sandbox, engineSaid: (message?.message ?? complaints).trim() },
  })
}

const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const collect = (stream: NodeJS.ReadableStream | null): (() => string) => {
  let text = ""
  stream?.on("data", (chunk: Buffer) => {
    if (text.length < 65_536) text += chunk.toString("utf8")
  })
  stream?.on("error", () => {})
  return () => text
}
