import { type FSWatcher, watch } from "node:fs"
import { readFile, stat } from "node:fs/promises"
import { join } from "node:path"
import { SandboxId } from "@berth/protocol/ids"

/** The exit of a first process, as conmon wrote it down. */
export interface ExitRecord {
  readonly code: number
  readonly at: Date
}

/** The directory in which conmon leaves one file per ended sandbox, watched. */
export interface Exits {
  read(sandbox: SandboxId): Promise<ExitRecord | undefined>
  /** Resolves when the sandbox's file exists; rejects when the signal fires. */
  wait(sandbox: SandboxId, signal: AbortSignal): Promise<ExitRecord>
  /** Calls back with each sandbox whose file appears, once. Returns a function that ends the subscription. */
  subscribe(onExit: (sandbox: SandboxId) => void, onGap: () => void): () => void
}

export const openExits = (directory: string): Exits => {
  const read = async (sandbox: SandboxId): Promise<ExitRecord | undefined> => {
    try {
      const file = join(directory, sandbox)
      const [text, { mtime }] = await Promise.all([readFile(file, "utf8"), stat(file)])
      // conmon writes aside and renames, so that an existing file is whole.
      const code = Number.parseInt(text, 10)
      return Number.isNaN(code) ? undefined : { code, at: mtime }
    } catch (thrown) {
      if ((thrown as NodeJS.ErrnoException).code === "ENOENT") return undefined
      throw thrown
    }
  }

  const subscribe: Exits["subscribe"] = (onExit, onGap) => {
    const seen = new Set<SandboxId>()
    const look = async (sandbox: SandboxId) => {
      if ((await read(sandbox)) === undefined) {
        seen.delete(sandbox)
      } else if (!seen.has(sandbox)) {
        seen.add(sandbox)
        onExit(sandbox)
      }
    }
    const watcher: FSWatcher = watch(directory, (_, name) => {
      const sandbox = SandboxId.safeParse(name)
      if (sandbox.success) look(sandbox.data).catch(onGap)
      else if (name === null) onGap()
    })
    watcher.on("error", onGap)
    return () => watcher.close()
  }

  const wait: Exits["wait"] = async (sandbox, signal) => {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    // The promise may reject before anyone waits for it.
    promise.catch(() => {})
    // The subscription comes before the first look, so that a file that appears in between is not missed.
    const unsubscribe = subscribe(
      (ended) => ended === sandbox && resolve(),
      () => reject(new Error("the directory of exit files cannot be watched")),
    )
    const abort = () => reject(signal.reason)
    signal.addEventListener("abort", abort, { once: true })
    try {
      signal.throwIfAborted()
      const already = await read(sandbox)
      if (already !== undefined) {
        resolve()
        return already
      }
      await promise
      const record = await read(sandbox)
      if (record === undefined) throw new Error("the exit file vanished")
      return record
    } finally {
      signal.removeEventListener("abort", abort)
      unsubscribe()
    }
  }

  return { read, wait, subscribe }
}
