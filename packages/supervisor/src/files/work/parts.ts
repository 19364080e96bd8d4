import { randomBytes } from "node:crypto"
import { lstat, opendir, unlink } from "node:fs/promises"
import { joinBytes } from "./bytes.ts"
import { removeTree } from "./remove-tree.ts"

/**
 * Age at which a part of another sandbox that shares the directory counts as abandoned. Nothing tells whether its
 * writer still runs; no write pauses so long.
 */
const ABANDONED_MS = 24 * 60 * 60_000
/** Limit of the remembered paths. Beyond it all are forgotten, and cleaned again when they are used. */
const MAX_KNOWN = 10_000

const NAME = /^\.berth-([0-9a-f]{16})-([0-9a-f]{8})-[0-9a-f]{16}\.part$/

/** Whether this is the name of a file that is still being written. */
export const isPart = (name: string): boolean => NAME.test(name)

/** The writer that a part's name tells: the supervisor that started the worker, and the worker. */
export interface Maker {
  readonly sandbox: string
  readonly worker: string
}

/** Names temporary files ("parts"), and removes those that a killed worker left. */
export class Parts {
  readonly #maker: Maker
  /** Directories that were cleaned of others' parts. */
  readonly #known = new Set<string>()

  constructor(maker: Maker) {
    this.#maker = maker
  }

  /** Returns a new name in a directory, after removing a killed worker's parts there. */
  async nameIn(directory: Buffer): Promise<Buffer> {
    await this.#clean(directory)
    const { sandbox, worker } = this.#maker
    const own = randomBytes(8).toString("hex")
    return joinBytes(directory, Buffer.from(`.berth-${sandbox}-${worker}-${own}.part`))
  }

  async #clean(directory: Buffer): Promise<void> {
    const key = directory.toString("latin1")
    if (this.#known.has(key)) return
    if (this.#known.size >= MAX_KNOWN) this.#known.clear()
    this.#known.add(key)
    try {
      // A name that is not UTF-8 is no part.
      for await (const { name } of await opendir(directory as unknown as string)) {
        const path = joinBytes(directory, Buffer.from(name))
        if (await this.#isLeft(name, path)) await removeLeft(path)
      }
    } catch {
      // The directory does not exist, or is closed to the user.
    }
  }

  async #isLeft(name: string, path: Buffer): Promise<boolean> {
    const [, sandbox, worker] = NAME.exec(name) ?? []
    if (sandbox === undefined) return false
    // A sandbox has one worker at a time, so a part of another worker is left over.
    if (sandbox === this.#maker.sandbox) return worker !== this.#maker.worker
    const found = await lstat(path).catch(() => undefined)
    return found !== undefined && Date.now() - found.mtimeMs > ABANDONED_MS
  }
}

/** Removes a file, or a directory that was copied in part. */
const removeLeft = async (path: Buffer): Promise<void> => {
  await unlink(path).catch(() => removeTree(path, NEVER).catch(() => {}))
}

const NEVER = new AbortController().signal
