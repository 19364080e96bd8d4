import { constants } from "node:fs"
import { type FileHandle, open, unlink } from "node:fs/promises"
import { basename, dirname } from "node:path"
import type { Readable } from "node:stream"
import { BerthError } from "@berth/protocol/errors"

/** How long an incoming bundle may pause: git packs a large repo for minutes before it writes on. */
export const BUNDLE_SILENCE_MS = 5 * 60_000

/** Mode of the file: everyone who may enter its directory may read it. */
const MODE = 0o644

const { O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_RDONLY, O_WRONLY } = constants

/** A bundle that the server sends. It is at `path` as a whole, or not at all. */
export class IncomingBundle {
  readonly path: string
  readonly #silenceMs: number
  #stop = new AbortController()
  #receiving: Promise<void> = Promise.resolve()
  #isWhole = false

  constructor(path: string, silenceMs = BUNDLE_SILENCE_MS) {
    this.path = path
    this.#silenceMs = silenceMs
  }

  get isWhole(): boolean {
    return this.#isWhole
  }

  /**
   * Writes the bundle. Throws a BerthError if this side cannot write it. A bundle that comes while another is still
   * coming replaces it, as the server has started anew.
   */
  receive(body: Readable): Promise<void> {
    this.#stop.abort()
    const stop = new AbortController()
    this.#stop = stop
    const received = this.#receiving.then(async () => {
      try {
        stop.signal.throwIfAborted()
        await this.#remove()
        await this.#write(body, stop.signal)
      } catch (thrown) {
        throw stop.signal.aborted || body.errored ? thrown : unwritable(this.path, thrown)
      }
    })
    this.#receiving = received.catch(() => {})
    return received
  }

  /** Stops receiving, and removes the file. */
  async discard(): Promise<void> {
    this.#stop.abort()
    await this.#receiving
    await this.#remove()
  }

  async #write(body: Readable, signal: AbortSignal): Promise<void> {
    await inDirectory(this.path, async (place) => {
      const file = await open(place, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, MODE)
      try {
        // Sets the mode regardless of the supervisor's umask, as the user must be able to read the file.
        await file.chmod(MODE)
        await this.#copy(body, file, signal)
        this.#isWhole = true
      } catch (thrown) {
        await unlink(place)
        throw thrown
      } finally {
        await file.close()
      }
    })
  }

  async #copy(body: Readable, file: FileHandle, signal: AbortSignal): Promise<void> {
    const stop = () => body.destroy(new Error("the bundle is not wanted any more"))
    const silence = setTimeout(
      () => body.destroy(new Error("the bundle stopped coming")),
      this.#silenceMs,
    )
    signal.addEventListener("abort", stop)
    try {
      // The connection stays open on an error, as the answer is still to be sent on it.
      for await (const chunk of body.iterator({ destroyOnReturn: false })) {
        await file.writeFile(chunk)
        silence.refresh()
      }
      signal.throwIfAborted()
    } finally {
      clearTimeout(silence)
      signal.removeEventListener("abort", stop)
    }
  }

  async #remove(): Promise<void> {
    this.#isWhole = false
    await inDirectory(this.path, (place) => unlink(place)).catch((thrown) => {
      if (thrown.code !== "ENOENT") throw thrown
    })
  }
}

/**
 * Acts on a file in its directory. The directory belongs to the user, who could put a link in its place while root
 * writes into it. So it is opened without following links, and the file is reached by the descriptor.
 */
const inDirectory = async (path: string, act: (place: string) => Promise<void>): Promise<void> => {
  const directory = await open(dirname(path), O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
  try {
    await act(`/proc/self/fd/${directory.fd}/${basename(path)}`)
  } finally {
    await directory.close()
  }
}

const unwritable = (path: string, cause: unknown): BerthError => {
  const { code } = cause as NodeJS.ErrnoException
  return new BerthError(
    code === "ENOSPC" ? "repo.disk_full" : "repo.bundle_failed",
    "the repo's bundle could not be written in the sandbox",
    { details: { path, code }, cause },
  )
}
