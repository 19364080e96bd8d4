import { randomBytes } from "node:crypto"
import { lstat, opendir, unlink } from "node:fs/promises"
import { joinBytes } from "./bytes.ts"
import { removeTree } from "./remove-tree.ts"

/** Of other sandboxes that share the directory, nobody knows whether they still write; no write pauses so long. */
const ABANDONED_MS = 24 * 60 * 60_000
/** Looked at again after so many others: what is remembered of each is its path. */
const MAX_KNOWN = 10_000

const NAME = /^\.berth-([0-9a-f]{16})-([0-9a-f]{8})-[0-9a-f]{16}\.part$/

/** Whether what has this name is only being written. */
export const isPart = (name: string): boolean => NAME.test(name)

/** Of whose files a name tells: the supervisor that started the worker, and the worker. */
export interface Maker {
  readonly sandbox: string
  readonly worker: string
}

/** The names of what is written aside, and the removal of what a worker left there that was killed. */
export class Parts {
  readonly #maker: Maker
  /** Directories in which nothing is left of others. */
  readonly #known = new Set<string>()

  constructor(maker: Maker) {
    this.#maker = maker
  }

  /** A new name in a directory, in which a killed worker's leftovers are gone then. */
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
      // A name that is no UTF-8 is none of ours.
      for await (const { name } of await opendir(directory as unknown as string)) {
        const path = joinBytes(directory, Buffer.from(name))
        if (await this.#isLeft(name, path)) await removeLeft(path)
      }
    } catch {
      // It is not there, or closed to the user.
    }
  }

  async #isLeft(name: string, path: Buffer): Promise<boolean> {
    const [, sandbox, worker] = NAME.exec(name) ?? []
    if (sandbox === undefined) return false
    // A sandbox has one worker at a time.
    if (sandbox === this.#maker.sandbox) return worker !== this.#maker.worker
    const found = await lstat(path).catch(() => undefined)
    return found !== undefined && Date.now() - found.mtimeMs > ABANDONED_MS
  }
}

/** A file, or a directory that was copied in part. */
const removeLeft = async (path: Buffer): Promise<void> => {
  await unlink(path).catch(() => removeTree(path, NEVER).catch(() => {}))
}

const NEVER = new AbortController().signal
