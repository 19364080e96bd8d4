import { MAX_LISTED_PORTS } from "@berth/protocol/port-limits"
import type { PortMessage } from "@berth/protocol/ports"
import { type Clock, pause } from "../processes/clock.ts"
import { portsOf } from "./list.ts"
import type { Listening } from "./listening.ts"
import type { Owner } from "./owners.ts"

/** Interval of the polls, as the kernel reports no opening of a port. With the wait below it stays below 100 ms. */
export const POLL_MS = 40
/**
 * Longest interval. With many connections a look takes long; the interval grows then, so that at most a tenth of the
 * time is spent on looks.
 */
const LONGEST_POLL_MS = 100
/** How long the report of an opened port waits for the name of its owner. */
const OWNERS_WAIT_MS = 50

export interface WatchParts {
  readonly clock: Clock
  readonly read: () => Promise<Listening[]>
  readonly owners: (inodes: ReadonlySet<string>) => Promise<ReadonlyMap<string, Owner>>
}

type Watcher = (message: PortMessage) => void

/** Reports ports that open and close. One poll serves all watchers; without watchers there is none. */
export class PortWatch {
  readonly #parts: WatchParts
  /** Watchers that got the list of open ports, and watchers that are still to get it. */
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

  /** Adds a watcher. The returned function removes it. */
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

  /** Whether a port is still open by the same socket: between two looks another program may have taken it. */
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

  /** Finds the owners of new sockets, if that does not take too long. One search at a time. */
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
