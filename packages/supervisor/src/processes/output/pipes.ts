import { closeSync, constants, fchownSync, openSync } from "node:fs"
import { mkdtemp, rm } from "node:fs/promises"
import { join } from "node:path"
import { spawn } from "../spawn.ts"
import type { User } from "../user.ts"

/** Both ends of a pipe, open. */
export interface Pipe {
  readonly readFd: number
  readonly writeFd: number
}

/** Enough for a boot's agent, hooks and sidecars, so that one call to `mkfifo` serves them all. */
const FIRST_BATCH = 8
/** Who needs more needs many, as clients do who run one command after another. */
const NEXT_BATCH = 64
/** So many are left when the next batch is made, so that nobody waits for it. */
const FEW = 8

/**
 * Makes pipes. Node gives its children sockets, and a socket cannot be opened by name: a script's
 * `echo … > /dev/stderr` fails on it with ENXIO. A pipe can be, by the user whom it belongs to. Node cannot
 * make one, but can open one that `mkfifo` made; its name is gone before anyone uses it.
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

  /** Undefined where none can be made: the caller then does with a socket. */
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
    // A first batch may be all that is ever needed.
    if (this.#isInDemand && this.#spare.length < FEW) this.#makeMore().catch(() => {})
    try {
      if (owner !== undefined) fchownSync(pipe.readFd, owner.uid, owner.gid)
      return pipe
    } catch {
      // Not ours to give away, as in a user namespace without that user.
      closePipe(pipe)
      return undefined
    }
  }

  close(): void {
    this.#isClosed = true
    for (const pipe of this.#spare.splice(0)) closePipe(pipe)
  }

  /** Those who ask at the same time share one batch. */
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

/** The reading end first and without waiting: opening a pipe waits for the other end. */
const open = (path: string): Pipe => {
  const readFd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  return { readFd, writeFd: openSync(path, constants.O_WRONLY) }
}
