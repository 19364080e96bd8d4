import { open, rename, rm } from "node:fs/promises"
import type { BootTrace } from "@berth/protocol/boot"

/**
 * Leaves the trace as a file, whole or not at all: written aside, flushed, then renamed. What stood there
 * before is replaced.
 */
export const saveTrace = async (path: string, trace: BootTrace): Promise<void> => {
  const aside = `${path}.new`
  try {
    const file = await open(aside, "w", 0o640)
    try {
      await file.writeFile(`${JSON.stringify(trace, undefined, 2)}\n`)
      // While the boot goes on, the next one follows soon.
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
 * The trace of a boot under way, on disk: whatever ends the supervisor, the file says how far the boot had
 * come. One write at a time; what came meanwhile is in the next.
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
