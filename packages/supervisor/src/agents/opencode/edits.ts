import { relative } from "node:path"

/** Calls that are kept in mind at the same time. */
const MAX_CALLS = 1_000

/**
 * Which files one conversation changes. OpenCode says of a file that it was edited, and not by whom: it is the
 * conversation with a running call that names the file.
 */
export class Edits {
  readonly #directory: string
  readonly #calls = new Map<string, string>()

  constructor(directory: string) {
    this.#directory = directory
  }

  begin(call: string, input: unknown): void {
    if (this.#calls.size < MAX_CALLS) this.#calls.set(call, JSON.stringify(input) ?? "")
  }

  end(call: string): void {
    this.#calls.delete(call)
  }

  areOf(file: string): boolean {
    const names = [file, relative(this.#directory, file)].map((name) =>
      JSON.stringify(name).slice(1, -1),
    )
    return [...this.#calls.values()].some((input) => names.some((name) => input.includes(name)))
  }
}
