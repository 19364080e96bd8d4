import { relative } from "node:path"

/** Limit of the running calls that are remembered. */
const MAX_CALLS = 1_000
/** Limit on the remembered inputs of all calls together, since each edited file is searched for in them. */
const MAX_CHARS = 4 * 1024 * 1024

/**
 * Finds out whether an edited file belongs to this conversation. OpenCode reports edits without saying who made them:
 * the file belongs to the conversation that has a running call with the file's name in its input.
 */
export class Edits {
  readonly #directory: string
  readonly #calls = new Map<string, string>()

  #chars = 0

  constructor(directory: string) {
    this.#directory = directory
  }

  begin(call: string, input: unknown): void {
    this.end(call)
    const text = JSON.stringify(input) ?? ""
    if (this.#calls.size >= MAX_CALLS || this.#chars + text.length > MAX_CHARS) return
    this.#calls.set(call, text)
    this.#chars += text.length
  }

  end(call: string): void {
    this.#chars -= this.#calls.get(call)?.length ?? 0
    this.#calls.delete(call)
  }

  areOf(file: string): boolean {
    const names = [file, relative(this.#directory, file)].map((name) =>
      JSON.stringify(name).slice(1, -1),
    )
    return [...this.#calls.values()].some((input) => names.some((name) => input.includes(name)))
  }
}
