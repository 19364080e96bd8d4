import type { PromptResult, PromptStanding, PromptStart } from "@berth/protocol/bridge"
import type { PromptId } from "@berth/protocol/ids"

/** A note of the ledger about a prompt. It is on disk before anything follows from it. */
export type LedgerEntry =
  | { readonly note: "accepted"; readonly start: PromptStart }
  | { readonly note: "started"; readonly prompt: PromptId }
  | { readonly note: "ended"; readonly prompt: PromptId; readonly result: PromptResult }
  /** The event of the prompt's end is in the journal. */
  | { readonly note: "reported"; readonly prompt: PromptId }

type Known =
  /** The prompt's text is kept as long as it may have to be started. */
  | { readonly state: "accepted"; readonly start: PromptStart }
  | { readonly state: "started" }
  | { readonly state: "ended"; readonly result: PromptResult; readonly reported: boolean }

/** The state of every prompt, in the order in which they were accepted. */
export class Standings {
  readonly #known = new Map<PromptId, Known>()

  apply(entry: LedgerEntry): void {
    switch (entry.note) {
      case "accepted":
        this.#known.set(entry.start.prompt, { state: "accepted", start: entry.start })
        return
      case "started":
        this.#known.set(entry.prompt, { state: "started" })
        return
      case "ended":
        this.#known.set(entry.prompt, { state: "ended", result: entry.result, reported: false })
        return
      case "reported": {
        const known = this.#known.get(entry.prompt)
        if (known?.state === "ended") this.#known.set(entry.prompt, { ...known, reported: true })
      }
    }
  }

  of(prompt: PromptId): PromptStanding {
    const known = this.#known.get(prompt)
    if (known === undefined) return { state: "unknown" }
    return known.state === "ended"
      ? { state: "ended", result: known.result }
      : { state: known.state }
  }

  /** The prompts that may still be started. */
  get accepted(): PromptStart[] {
    return this.#all.flatMap(([, known]) => (known.state === "accepted" ? [known.start] : []))
  }

  get started(): PromptId[] {
    return this.#all.flatMap(([prompt, { state }]) => (state === "started" ? [prompt] : []))
  }

  /** The prompts whose end may not be in the journal. */
  get unreported(): { prompt: PromptId; result: PromptResult }[] {
    return this.#all.flatMap(([prompt, known]) =>
      known.state === "ended" && !known.reported ? [{ prompt, result: known.result }] : [],
    )
  }

  /** The shortest list of entries with the same result. */
  *entries(): Iterable<LedgerEntry> {
    for (const [prompt, known] of this.#known) {
      if (known.state === "accepted") yield { note: "accepted", start: known.start }
      if (known.state === "started") yield { note: "started", prompt }
      if (known.state === "ended") yield { note: "ended", prompt, result: known.result }
      if (known.state === "ended" && known.reported) yield { note: "reported", prompt }
    }
  }

  get #all(): [PromptId, Known][] {
    return [...this.#known]
  }
}
