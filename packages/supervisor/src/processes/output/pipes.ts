import { closeSync, constants, fchownSync, openSync } from "node:fs"
import { mkdtemp, rm } from "node:fs/promises"
import { join } from "node:path"
import { spawn } from "../spawn.ts"
import type { User } from "../user.ts"

/** An open pipe, with both ends. */
export interface Pipe {
  readonly readFd: number
  readonly writeFd: number
}

/**
 * Pipes of the first batch: enough for a boot's agent, hooks and sidecars, so that one call of `mkfifo` serves them
 * all.
 */
const FIRST_BATCH = 8
/** Pipes of later batches. A client that needs more needs many, as when it runs one command after another. */
const NEXT_BATCH = 64
/** The next batch is made when so few pipes are left, so that no caller waits for it. */
const FEW = 8

/**
 * Makes pipes. Node gives its children sockets, and a socket cannot be opened by name: a script's `echo … >
 * /dev/stderr` fails on it with ENXIO. A pipe can be opened by its owner. Node cannot make one, but it can open one
 * that `mkfifo` made. Its name is removed before the pipe is used.
 */
export class Pipes {
  readonly #scratchDirectory: string
  readonly #spare: Pipe[] = []
  #batch = FIRST_BATCH
  #isInDemand = false
  #making: Promise<void> | undefined
  #isClosed = false

  /** The directory holds the names for some milliseconds, out of the reach of other users. */
  constructor(scratchDirectory: string) {
    this.#scratchDirectory = scratchDirectory
  }

  /** Returns a pipe that belongs to the owner, or undefined if none can be made; the caller then uses a socket. */
  async take(owner: User | undefined): Promise<Pipe | undefined> {
    while (this.#spare.length === 0) {
      try {
        await this.#makeMore()
      } catch {
        return undefined
      }
      if (this.#isClosed) return undefined
    }
    const pipe = this.#spare.pop() as Pipe
    // The first batch is not refilled early, as it may be all that is ever needed.
    if (this.#isInDemand && this.#spare.length < FEW) this.#makeMore().catch(() => {})
    try {
      if (owner !== undefined) fchownSync(pipe.readFd, owner.uid, owner.gid)
      return pipe
    } catch {
      // The pipe cannot be given to that user, as in a user namespace that lacks the user.
      closePipe(pipe)
      return undefined
    }
  }

  close(): void {
    this.#isClosed = true
    for (const pipe of this.#spare.splice(0)) closePipe(pipe)
  }

  /** Makes a batch. Concurrent callers share it. */
  #makeMore(): Promise<void> {
    this.#making ??= this.#make().finally(() => {
      this.#making = undefined
    })
    return this.#making
  }

  async #make(): Promise<void> {
    const count = this.#batch
    this.#isInDemand = count === NEXT_BATCH
    this.#batch = NEXT_BATCH
    const directory = await mkdtemp(join(this.#scratchDirectory, "berth-pipes-"))
    try {
      const paths = Array.from({ length: count }, (_, index) => join(directory, String(index)))
      await mkfifo(paths)
      for (const path of paths) this.#spare.push(open(path))
      if (this.#isClosed) this.close()
    } finally {
      await rm(directory, { recursive: true, force: true })
    }
  }
}

const closePipe = ({ readFd, writeFd }: Pipe): void => {
  closeSync(readFd)
  closeSync(writeFd)
}

const mkfifo = (paths: readonly string[]): Promise<void> =>
  new Promise((resolve, reject) => {
    const maker = spawn("mkfifo", ["-m", "600", ...paths], {
      env: { PATH: "/usr/local/bin:/usr/bin:/bin" },
      stdio: "ignore",
    })
    maker.on("error", reject)
    maker.on("exit", (status) =>
      status === 0 ? resolve() : reject(new Error(`mkfifo ended with status ${status}`)),
    )
  })

/** Opens the reading end first and without blocking: opening a pipe waits for the other end. */
const open = (path: string): Pipe => {
  const readFd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  return { readFd, writeFd: openSync(path, constants.O_WRONLY) }
}
