import { Redaction } from "./redaction.ts"

/** Asks the server for the agent's keys, by the names of their environment variables. */
export type AskForKeys = (signal: AbortSignal) => Promise<Readonly<Record<string, string>>>

/** The agent's keys: held in memory only, and passed to the agent's own processes alone. */
export class AgentKeys {
  readonly #isNeeded: boolean
  readonly #ask: AskForKeys
  #environment: Readonly<Record<string, string>> = {}
  #redaction = new Redaction([])

  constructor(names: readonly string[], ask: AskForKeys) {
    this.#isNeeded = names.length > 0
    this.#ask = ask
  }

  /** Fetches the keys. To be called before the agent starts. */
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
