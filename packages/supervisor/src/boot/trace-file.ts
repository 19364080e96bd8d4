import { open, rename, rm } from "node:fs/promises"
import type { BootTrace } from "@berth/protocol/boot"

/** Writes the trace to a file atomically: written aside, flushed, then renamed over the old one. */
export const saveTrace = async (path: string, trace: BootTrace): Promise<void> => {
  const aside = `${path}.new`
  try {
    const file = await open(aside, "w", 0o640)
    try {
      await file.writeFile(`${JSON.stringify(trace, undefined, 2)}\n`)
      // Not synced while the boot goes on, as the next trace follows soon.
      if (trace.endedAtMs !== null) await file.datasync()
    } finally {
      await file.close()
    }
    await rename(aside, path)
  } catch (thrown) {
    await rm(aside, { force: true }).catch(() => {})
    throw thrown
  }
}

/**
 * Saves the trace of a running boot: whatever ends the supervisor, the file says how far the boot had come. One write
 * runs at a time; a trace that comes meanwhile is written next.
 */
export class TraceFile {
  readonly #path: string
  #next: BootTrace | undefined
  #saving: Promise<void> | undefined

  constructor(path: string) {
    this.#path = path
  }

  /** Resolves when this trace, or a later one, is saved. */
  save(trace: BootTrace): Promise<void> {
    this.#next = trace
    this.#saving ??= this.#saveAll().finally(() => {
      this.#saving = undefined
    })
    return this.#saving
  }

  async #saveAll(): Promise<void> {
    let failure: { readonly thrown: unknown } | undefined
    while (this.#next !== undefined) {
      const trace = this.#next
      this.#next = undefined
      failure = await saveTrace(this.#path, trace).then(
        () => undefined,
        (thrown: unknown) => ({ thrown }),
      )
    }
    if (failure !== undefined) throw failure.thrown
  }
}
