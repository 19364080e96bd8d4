import { type ChildProcess, spawn } from "node:child_process"
import type { Socket } from "node:net"
import { abortable } from "@berth/host/abortable"
import { openSpares, type Spares } from "@berth/host/spares"
import { BerthError } from "@berth/protocol/errors"
import type { SandboxId } from "@berth/protocol/ids"
import { z } from "zod"
import { quoted } from "./quoted.ts"
import { CREATING_ENV, WORD_FD } from "./runtime.ts"

/** The log's size at which it starts anew: enough for the story of a boot. */
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

/** A message of conmon's pipe: the pid of the container's first process, or -1 and the runtime's words. */
const SyncMessage = z.object({ data: z.int(), message: z.string().optional() })

/** The descriptor of the pipe on which conmon reports, as conmon sees it. */
const SYNC_FD = 3

/** A conmon that runs and has not created its container yet. */
export interface Monitor {
  /** Has the container created, and gives the pid of its first process. */
  create(): Promise<number>
  /** Lets go of conmon, and kills it if no container was created. */
  release(): void
}

/** Shells that wait to become conmon: starting a process from one as large as the server takes milliseconds. */
export type Launchers = Spares<ChildProcess>

export const openLaunchers = (): Launchers => openSpares(makeLauncher, (it) => it.kill("SIGKILL"))

/**
 * A shell that reads from its input which command to become. It ends with its input, and so with the server, whatever
 * ends that.
 */
const makeLauncher = (): ChildProcess => {
  const launcher = spawn("/bin/sh", {
    cwd: "/",
    env: { ...CREATING_ENV, _OCI_SYNCPIPE: `${SYNC_FD}` },
    detached: true,
    stdio: ["pipe", "ignore", "pipe", "pipe", "pipe"],
  })
  // A launcher that failed to start is noticed by its pipes, which end.
  launcher.on("error", () => {})
  launcher.stdin?.on("error", () => {})
  // A launcher that waits to be taken does not keep the server alive.
  launcher.unref()
  for (const pipe of launcher.stdio) (pipe as Socket | null)?.unref()
  return launcher
}

/**
 * Starts conmon, which leaves this process's tree at once: it outlives the server, keeps the sandbox's output in a
 * bounded log and its exit status in a file. Loading conmon and what it starts on the way to the runtime takes as long
 * as preparing a sandbox, so both happen side by side: the runtime waits for the word to create.
 */
export const startConmon = (
  launchers: Launchers,
  options: ConmonOptions,
  signal: AbortSignal,
): Monitor => {
  signal.throwIfAborted()
  const child = launchers.take(signal)
  const sync = child.stdio[SYNC_FD] as Socket
  const word = child.stdio[WORD_FD] as Socket
  const complaints = collect(child)
  // conmon forks: the second process stays. The first notes the second's pid before it ends, which on a busy machine
  // may come last.
  child.ref()
  const hasLeft = new Promise<unknown>((resolve) => child.once("exit", resolve))
  word.on("error", () => {})
  sync.ref()
  child.stdin?.end(`exec ${conmonCommand(options).map(quoted).join(" ")} < /dev/null\n`)
  let created = false
  const abort = () => sync.destroy()
  signal.addEventListener("abort", abort, { once: true })
  return {
    async create() {
      word.end("create\n")
      const line = await firstLine(sync)
      signal.throwIfAborted()
      const pid = parseSync(line, options.sandbox, complaints())
      created = true
      await abortable(hasLeft, signal)
      return pid
    },
    release() {
      signal.removeEventListener("abort", abort)
      for (const pipe of [sync, word, child.stderr]) pipe?.destroy()
      // A conmon without its arguments yet cannot be found by anybody else, so it is killed here.
      if (!created) child.kill("SIGKILL")
    },
  }
}

const conmonCommand = (options: ConmonOptions): string[] => {
  const [runtime, ...runtimeArguments] = options.runtime
  return [
    [options.conmon],
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
    // A broken pipe means that conmon died: the caller sees that by the empty line.
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

const collect = (child: ChildProcess): (() => string) => {
  let text = ""
  child.stderr?.on("data", (chunk: Buffer) => {
    if (text.length < 65_536) text += chunk.toString("utf8")
  })
  child.stderr?.on("error", () => {})
  child.on("error", ({ message }) => {
    text += message
  })
  return () => text
}
