import { constants } from "node:fs"
import { open } from "node:fs/promises"
import { join } from "node:path"
import { BootTrace } from "@berth/protocol/boot"
import { BerthError } from "@berth/protocol/errors"
import { SHARED } from "@berth/protocol/shared-directory"
import { getFromSandbox, MAX_DOCUMENT_BYTES } from "./get.ts"
import { parseFromSandbox } from "./parse.ts"

export interface TraceSource {
  /** The directory that the sandbox shares with the server: everything in it is under the sandbox's control. */
  readonly directory: string
  readonly socket: string
  readonly token: string
}

/** The trace of a boot: from the supervisor while it runs, else from the file that it left. */
export const readTrace = async (source: TraceSource, signal: AbortSignal): Promise<BootTrace> => {
  const { socket, token } = source
  const get = { address: { path: socket }, token, path: "/boot", schema: BootTrace }
  try {
    return await getFromSandbox(get, signal)
  } catch (live) {
    signal.throwIfAborted()
    const left = await readLeftTrace(join(source.directory, SHARED.trace))
    if (left === undefined) throw live
    return isGone(live) ? asEnded(left) : left
  }
}

/** Whether nobody listens: a paused or starved supervisor still listens, and is only slow. */
const isGone = (thrown: unknown): boolean =>
  thrown instanceof BerthError && thrown.code === "bridge.unreachable"

/** Marks a boot as ended whose supervisor is gone, whatever it wrote last. */
const asEnded = (trace: BootTrace): BootTrace => {
  if (trace.outcome !== "running") return trace
  const times = trace.steps.map(({ startedAtMs, endedAtMs }) => endedAtMs ?? startedAtMs ?? 0)
  const atMs = Math.max(0, ...times)
  const reason = "the supervisor is gone: it was killed, or the machine went down"
  return {
    ...trace,
    outcome: "failed",
    endedAtMs: atMs,
    ending: { step: null, reason, atMs, others: [] },
  }
}

/** Reads the trace file, never through a link or from a pipe, and no more than a trace can be. */
const readLeftTrace = async (path: string): Promise<BootTrace | undefined> => {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
  const file = await open(path, flags).catch((thrown: NodeJS.ErrnoException) => {
    if (thrown.code === "ENOENT") return undefined
    throw unreadable(path, thrown.message, thrown)
  })
  if (file === undefined) return undefined
  try {
    const status = await file.stat()
    if (!status.isFile()) throw unreadable(path, "it is not a file")
    if (status.size > MAX_DOCUMENT_BYTES) throw unreadable(path, "it is too large")
    const bytes = Buffer.alloc(status.size)
    const { bytesRead } = await file.read(bytes, 0, bytes.length, 0)
    return parseFromSandbox(bytes.subarray(0, bytesRead), BootTrace)
  } finally {
    await file.close()
  }
}

const unreadable = (path: string, why: string, cause?: unknown): BerthError =>
  new BerthError("bridge.protocol_violated", `the boot's trace cannot be read: ${why}`, {
    details: { path },
    cause,
  })
