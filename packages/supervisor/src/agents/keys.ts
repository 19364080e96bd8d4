import { Redaction } from "./redaction.ts"

/** Asks for the keys of the agent, by the names under which it has them in its environment. */
export type AskForKeys = (signal: AbortSignal) => Promise<Readonly<Record<string, string>>>

/** The keys of an agent: in memory only, and for its own processes alone. */
export class AgentKeys {
  readonly #isNeeded: boolean
  readonly #ask: AskForKeys
  #environment: Readonly<Record<string, string>> = {}
  #redaction = new Redaction([])

  constructor(names: readonly string[], ask: AskForKeys) {
    this.#isNeeded = names.length > 0
    this.#ask = ask
  }

  /** Before the agent starts. */
  async load(signal: AbortSignal): Promise<void> {
    if (!this.#isNeeded) return
    this.#environment = await this.#ask(signal)
    this.#redaction = new Redaction(Object.values(this.#environment))
  }

  get environment(): Readonly<Record<string, string>> {
    return this.#environment
  }

  get redaction(): Redaction {
    return this.#redaction
  }
}
