import { type FSWatcher, readFileSync, watch } from "node:fs"
import { lstat, opendir } from "node:fs/promises"
import { BerthError } from "@berth/protocol/errors"
import type { FileChange } from "@berth/protocol/files"
import { MAX_PENDING_CHANGES } from "@berth/protocol/files-limits"
import { joinBytes, toWire } from "./bytes.ts"
import { systemCode } from "./failure.ts"
import { isPart } from "./parts.ts"

/** Limit of the watched directories. Each costs one watch of the kernel, and a few kilobytes of this process. */
export const MAX_WATCHED_DIRECTORIES = 20_000

export interface WatchTreeOptions {
  /** Names to leave out. */
  readonly ignore: ReadonlySet<string>
  /** Called when `take` has something to return. */
  readonly onChange: () => void
}

interface Watched {
  readonly watcher: FSWatcher
  readonly below: Map<string, Watched>
}

/** The changes since the last call; undefined if there were more than could be kept. */
export type Taken = readonly FileChange[] | undefined

/**
 * Watches a tree, one directory at a time, as the kernel has no other way. Paths are kept as latin1 text, in which each
 * character is a byte.
 */
export class WatchTree {
  /** The trees share one queue of the kernel, so an event that is lost may belong to any of them. */
  static readonly #all = new Set<WatchTree>()
  static #burst = 0
  readonly #root: Buffer
  readonly #options: WatchTreeOptions
  /** Paths at which something happened. True if the entry appeared or disappeared. */
  #pending = new Map<string, boolean>()
  #top: Watched | undefined
  #lost = false
  #directories = 0
  #isClosed = false

  constructor(root: Buffer, options: WatchTreeOptions) {
    this.#root = root
    this.#options = options
  }

  get directories(): number {
    return this.#directories
  }

  /** Starts watching. Resolves when every directory is watched. */
  async open(): Promise<void> {
    WatchTree.#all.add(this)
    this.#top = this.#watch("")
    await this.#look("", this.#top, false)
  }

  /** Returns the changes, as things stand now. After a loss, everything is watched anew. */
  async take(): Promise<Taken> {
    if (this.#lost) {
      this.#unwatch(this.#top)
      this.#top = undefined
      this.#lost = false
      await this.open()
      return undefined
    }
    const pending = this.#pending
    this.#pending = new Map()
    const changes = new Map<string, FileChange>()
    for (const path of [...pending.keys()].sort()) {
      if (hasAbove(path, changes)) continue
      const change = await this.#settle(path, pending.get(path) ?? false)
      if (change !== undefined) changes.set(path, { path: toWire(bytesOf(path)), change })
    }
    if (this.#pending.size > 0) this.#options.onChange()
    return [...changes.values()]
  }

  close(): void {
    this.#isClosed = true
    WatchTree.#all.delete(this)
    this.#unwatch(this.#top)
    this.#top = undefined
  }

  /** Finds out what a change at a path was, and watches a new directory. */
  async #settle(path: string, cameOrWent: boolean): Promise<FileChange["change"] | undefined> {
    const found = await lstat(this.#at(path)).catch(gone)
    const [above, name] = this.#above(path)
    const known = above?.below.get(name)
    // A directory that appeared or disappeared is another one, even if it has the same name.
    if (known !== undefined && (cameOrWent || !found?.isDirectory())) {
      this.#unwatch(known)
      above?.below.delete(name)
    }
    if (found === undefined) return cameOrWent ? "removed" : undefined
    if (found.isDirectory() && above !== undefined && !above.below.has(name)) {
      const watched = this.#tryWatch(path)
      if (watched !== undefined) {
        above.below.set(name, watched)
        await this.#look(path, watched, true)
      }
    }
    return "changed"
  }

  /** Watches the directories below. A directory is read after it is watched, so that no change is missed in between. */
  async #look(path: string, watched: Watched, isNew: boolean): Promise<void> {
    try {
      // @types/node knows names as text only.
      const at = this.#at(path) as unknown as string
      for await (const entry of await opendir(at, { encoding: "buffer" as never })) {
        if (this.#isClosed || this.#lost) return
        const name = textOf(entry.name as unknown as Buffer)
        if (this.#isIgnored(name)) continue
        const child = path === "" ? name : `${path}/${name}`
        // A new directory is read when its own change is settled.
        if (isNew) this.#note(child, true)
        else if (entry.isDirectory()) {
          const below = this.#tryWatch(child)
          if (below === undefined) continue
          watched.below.set(name, below)
          await this.#look(child, below, false)
        }
      }
    } catch (thrown) {
      if (path === "" || systemCode(thrown) === undefined) throw thrown
    }
  }

  /** Ignores files that are still being written: the change is reported when they get their final name. */
  #isIgnored(name: string): boolean {
    return this.#options.ignore.has(name) || isPart(name)
  }

  #note(path: string, cameOrWent: boolean): void {
    if (this.#lost) return
    if (this.#pending.size >= MAX_PENDING_CHANGES) this.#lose()
    else this.#pending.set(path, cameOrWent || this.#pending.get(path) === true)
    this.#options.onChange()
  }

  #lose(): void {
    this.#lost = true
    this.#pending.clear()
  }

  /**
   * Detects a likely overflow. The kernel's queue is limited, and node does not report an overflow. But all queued
   * events arrive in one turn of the event loop, so this many in one turn may be the rest of more.
   */
  #count(): void {
    if (WatchTree.#burst++ === 0)
      setImmediate(() => {
        WatchTree.#burst = 0
      })
    if (WatchTree.#burst < BURST_LIMIT) return
    for (const tree of WatchTree.#all) {
      if (tree.#lost) continue
      tree.#lose()
      tree.#options.onChange()
    }
  }

  #tryWatch(path: string): Watched | undefined {
    try {
      return this.#watch(path)
    } catch (thrown) {
      // The directory is gone, or closed to the user.
      if (thrown instanceof BerthError || systemCode(thrown) === undefined) throw thrown
      return undefined
    }
  }

  #watch(path: string): Watched {
    if (this.#directories >= MAX_WATCHED_DIRECTORIES) throw tooMany(this.#directories)
    let watcher: FSWatcher
    try {
      watcher = watch(this.#at(path), { encoding: "buffer" }, (type, name) => {
        this.#count()
        const text = textOf(name ?? Buffer.alloc(0))
        if (text === "" || this.#isIgnored(text)) return
        this.#note(path === "" ? text : `${path}/${text}`, type === "rename")
      })
    } catch (thrown) {
      const code = systemCode(thrown) ?? ""
      throw OUT_OF_WATCHES.has(code) ? tooMany(this.#directories, thrown) : thrown
    }
    watcher.on("error", () => this.#note(path, true))
    this.#directories++
    return { watcher, below: new Map() }
  }

  #unwatch(watched: Watched | undefined): void {
    if (watched === undefined) return
    watched.watcher.close()
    this.#directories--
    for (const below of watched.below.values()) this.#unwatch(below)
  }

  /** The watched directory that a path lies in, and the last name of the path. */
  #above(path: string): [Watched | undefined, string] {
    const names = path.split("/")
    const last = names.pop() ?? ""
    let above = this.#top
    for (const name of names) above = above?.below.get(name)
    return [above, last]
  }

  #at(path: string): Buffer {
    return path === "" ? this.#root : joinBytes(this.#root, bytesOf(path))
  }
}

const OUT_OF_WATCHES = new Set(["ENOSPC", "EMFILE", "ENFILE"])

/** A part of the queue's size, since not every event in the queue reaches us. */
const BURST_LIMIT = (() => {
  try {
    return Number(readFileSync("/proc/sys/fs/inotify/max_queued_events", "utf8")) / 4
  } catch {
    return 4_096
  }
})()

/** Whether a directory above the path was removed; its content is not reported then. */
const hasAbove = (path: string, changes: ReadonlyMap<string, FileChange>): boolean => {
  for (let at = path.lastIndexOf("/"); at > 0; at = path.lastIndexOf("/", at - 1))
    if (changes.get(path.slice(0, at))?.change === "removed") return true
  return false
}

const tooMany = (directories: number, cause?: unknown): BerthError =>
  new BerthError("files.watch_limit", `no more than ${directories} directories can be watched`, {
    details: { directories },
    cause,
  })

const gone = (thrown: unknown): undefined => {
  if (systemCode(thrown) === undefined) throw thrown
}

const textOf = (bytes: Buffer): string => bytes.toString("latin1")
const bytesOf = (text: string): Buffer => Buffer.from(text, "latin1")
