import type { ChildProcess } from "node:child_process"
import { randomBytes } from "node:crypto"
import { once } from "node:events"
import { mkdtemp, rename, rm } from "node:fs/promises"
import { createServer } from "node:net"
import { join } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import type { FeatureParts } from "../features/parts.ts"
import { OWN_PROGRAM_FLAGS } from "../processes/own-program.ts"
import { signalGroup } from "../processes/signal-group.ts"
import { spawn } from "../processes/spawn.ts"
import type { Maker } from "./work/parts.ts"

/** Time limit for SIGKILL. It works at once, except on a process that waits for a disk or a network file system. */
const END_DEADLINE_MS = 2_000

/** The command that runs the worker: node and its arguments. */
export type WorkerCommand = readonly [string, ...string[]]

/**
 * Node's flags for the worker. Its data is short-lived: a small young generation halves the memory, and takes no more
 * time.
 */
export const WORKER_FLAGS = [...OWN_PROGRAM_FLAGS, "--max-semi-space-size=1"]

/** The worker as it is installed in every sandbox. */
export const bundledWorker = ({ toolbox }: FeatureParts["places"]): WorkerCommand => [
  process.execPath,
  ...WORKER_FLAGS,
  join(toolbox, "supervisor/files-worker.cjs"),
]

interface Running {
  readonly child: ChildProcess
  readonly directory: string
  readonly socketPath: string
}

/**
 * The process that works with files as the user. The first call starts it, and the next call after it has ended starts
 * it again. The user can stop and end it, and runs the program that it starts for a search, so nothing that it says is
 * trusted.
 */
export class WorkerProcess {
  readonly #parts: FeatureParts
  readonly #command: WorkerCommand
  /** Distinguishes its workers' files from those of other sandboxes. */
  readonly #sandbox = randomBytes(8).toString("hex")
  #running: Promise<Running> | undefined
  #isClosed = false

  constructor(parts: FeatureParts, command: WorkerCommand) {
    this.#parts = parts
    this.#command = command
  }

  /** Returns the path of the worker's socket. Requests that are sent before the worker is up wait. */
  async socketPath(): Promise<string> {
    if (this.#isClosed) throw new BerthError("cancelled", "the sandbox is going down")
    // Assigned before the first await, so that concurrent callers share one process.
    this.#running ??= this.#start()
    return (await this.#running).socketPath
  }

  /** Ends a worker that does not answer. The next call starts another. */
  giveUp(): void {
    const running = this.#running
    this.#running = undefined
    void running?.then(end, () => {})
  }

  /** Ends the worker with what it runs. A second call is harmless. */
  async close(): Promise<void> {
    this.#isClosed = true
    const running = await this.#running?.catch(() => undefined)
    if (running !== undefined) await end(running)
  }

  #start(): Promise<Running> {
    const maker = { sandbox: this.#sandbox, worker: randomBytes(4).toString("hex") }
    const starting = start(this.#parts, this.#command, maker)
    const forget = () => {
      if (this.#running === starting) this.#running = undefined
    }
    starting.then((running) => {
      running.child.once("exit", () => {
        forget()
        void end(running)
      })
    }, forget)
    return starting
  }
}

/**
 * Starts a worker. The socket is made here, in a directory that is closed to the user, and inherited by the worker: no
 * other process can connect to it or replace it.
 */
const start = async (
  parts: FeatureParts,
  command: WorkerCommand,
  maker: Maker,
): Promise<Running> => {
  const { places, user, environment } = parts
  const directory = await mkdtemp(join(places.logs, "berth-files-"))
  const [made, socketPath] = [join(directory, "made"), join(directory, "socket")]
  const listener = createServer()
  try {
    await once(listener.listen(made), "listening")
    // Renamed, because closing our listener removes the name that it was made with.
    await rename(made, socketPath)
    const child = launch(command, { places, user, environment, maker }, descriptorOf(listener))
    await once(child, "spawn")
    return { child, directory, socketPath }
  } catch (cause) {
    await rm(directory, { recursive: true, force: true })
    throw new BerthError(
      "process.start_failed",
      "the process that works with files did not start",
      {
        details: { command: command[0], uid: user?.uid },
        cause,
      },
    )
  } finally {
    listener.close()
  }
}

/**
 * Runs the worker in a process group of its own, with what it starts. It takes the user's ids itself, and its
 * environment has no variable of the user's that could change what it does.
 */
const launch = (
  [file, ...args]: WorkerCommand,
  {
    places,
    user,
    environment,
    maker,
  }: Pick<FeatureParts, "places" | "user" | "environment"> & { readonly maker: Maker },
  listenFd: number,
): ChildProcess => {
  const told = { workspace: places.workspace, search: join(places.toolbox, "bin/rg"), maker, user }
  const { HOME = "" } = environment
  return spawn(file, [...args, JSON.stringify(told)], {
    cwd: "/",
    env: { HOME },
    // The worker ends when its standard input closes, and so with this process.
    stdio: ["pipe", "ignore", "ignore", listenFd],
    detached: true,
  }).on("error", () => {})
}

const descriptorOf = (listener: object): number => {
  const { fd } = (listener as { _handle: { fd: number } })._handle
  if (!(fd > 2)) throw new Error("the socket has no descriptor")
  return fd
}

const end = async ({ child, directory }: Running): Promise<void> => {
  if (child.exitCode === null && child.signalCode === null) {
    const ended = once(child, "exit", { signal: AbortSignal.timeout(END_DEADLINE_MS) })
    signalGroup(child.pid as number, "SIGKILL")
    await ended.catch(() => {})
  } else signalGroup(child.pid as number, "SIGKILL")
  await rm(directory, { recursive: true, force: true })
}
