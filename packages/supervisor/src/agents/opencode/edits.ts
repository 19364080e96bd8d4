import { relative } from "node:path"

/** Calls that are kept in mind at the same time. */
const MAX_CALLS = 1_000
/** Bound on the inputs that are kept of all calls. Each edited file is looked for in them. */
const MAX_CHARS = 4 * 1024 * 1024

/**
 * Which files one conversation changes. OpenCode says of a file that it was edited, and not by whom: it is the
 * conversation with a running call that names the file.
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
