import { MAX_LISTED_PORTS } from "@berth/protocol/port-limits"
import type { PortMessage } from "@berth/protocol/ports"
import { type Clock, pause } from "../processes/clock.ts"
import { portsOf } from "./list.ts"
import type { Listening } from "./listening.ts"
import type { Owner } from "./owners.ts"

/** The kernel does not tell when a port opens. Together with the wait below it stays below 100 ms. */
export const POLL_MS = 40
/** Where there are many connections a look takes long: then at most a tenth of the time is spent on it. */
const LONGEST_POLL_MS = 100
/** So long a port's opening waits for the name of who opened it. */
const OWNERS_WAIT_MS = 50

export interface WatchParts {
  readonly clock: Clock
  readonly read: () => Promise<Listening[]>
  readonly owners: (inodes: ReadonlySet<string>) => Promise<ReadonlyMap<string, Owner>>
}

type Watcher = (message: PortMessage) => void

/** Tells of ports that open and close, to any number of watchers with one look. Nobody watches: nobody looks. */
export class PortWatch {
  readonly #parts: WatchParts
  /** Those that were told of the ports that there are, and those that are to be. */
  readonly #watchers = new Set<Watcher>()
  readonly #fresh = new Set<Watcher>()
  #known = new Map<number, readonly Listening[]>()
  #owners: ReadonlyMap<string, Owner> = new Map()
  #isAsking = false
  #stop: AbortController | undefined

  constructor(parts: WatchParts) {
    this.#parts = parts
  }

  get count(): number {
    return this.#watchers.size + this.#fresh.size
  }

  /** The returned function ends it. */
  watch(watcher: Watcher): () => void {
    this.#fresh.add(watcher)
    if (this.#stop === undefined) {
      this.#stop = new AbortController()
      void this.#run(this.#stop.signal)
    }
    return () => {
      this.#watchers.delete(watcher)
      this.#fresh.delete(watcher)
      if (this.count === 0) this.close()
    }
  }

  close(): void {
    this.#stop?.abort()
    this.#stop = undefined
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#parts
    while (!signal.aborted) {
      const beganAtMs = clock.nowMs()
      await this.#look(signal)
      const tookMs = clock.nowMs() - beganAtMs
      await pause(clock, Math.min(LONGEST_POLL_MS, Math.max(POLL_MS, 9 * tookMs)), signal)
    }
  }

  async #look(signal: AbortSignal): Promise<void> {
    const all = Map.groupBy(await this.#parts.read(), ({ port }) => port)
    const now = new Map([...all].toSorted(([a], [b]) => a - b).slice(0, MAX_LISTED_PORTS))
    const closed = [...this.#known.keys()].filter((port) => !this.#isStill(port, now.get(port)))
    const opened = [...now].flatMap(([port, sockets]) =>
      this.#isStill(port, sockets) ? [] : sockets,
    )
    if (opened.length > 0) await this.#learn(opened)
    if (signal.aborted) return
    this.#known = now
    const inodes = new Set([...now.values()].flat().map(({ inode }) => inode))
    this.#owners = new Map([...this.#owners].filter(([inode]) => inodes.has(inode)))
    for (const port of closed) this.#tell({ type: "closed", port })
    for (const port of portsOf(opened, this.#owners)) this.#tell({ type: "opened", ...port })
    this.#greet(all.size > now.size)
  }

  /** By its sockets: between two looks another program may have taken the port. */
  #isStill(port: number, sockets: readonly Listening[] = []): boolean {
    const before = new Set(this.#known.get(port)?.map(({ inode }) => inode))
    return sockets.some(({ inode }) => before.has(inode))
  }

  #tell(message: PortMessage): void {
    for (const watcher of this.#watchers) watcher(message)
  }

  #greet(isCut: boolean): void {
    if (this.#fresh.size === 0) return
    const ports = portsOf([...this.#known.values()].flat(), this.#owners)
    for (const watcher of this.#fresh) {
      this.#watchers.add(watcher)
      watcher({ type: "ports", ports, isCut })
    }
    this.#fresh.clear()
  }

  /** Who opened them, if that can be told in time. One question at a time. */
  async #learn(sockets: readonly Listening[]): Promise<void> {
    if (this.#isAsking) return
    this.#isAsking = true
    const enough = new AbortController()
    const asked = this.#parts
      .owners(new Set(sockets.map(({ inode }) => inode)))
      .then((owners) => {
        this.#owners = new Map([...this.#owners, ...owners])
      })
      .catch(() => {})
      .finally(() => {
        this.#isAsking = false
        enough.abort()
      })
    await Promise.race([asked, pause(this.#parts.clock, OWNERS_WAIT_MS, enough.signal)])
  }
}
