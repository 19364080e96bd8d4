import type { CommandId } from "@berth/protocol/commands"
import type { PromptId } from "@berth/protocol/ids"
import type { TerminalId } from "@berth/protocol/terminals"

/** What runs for someone now, as those say who run it. */
export interface InUse {
  readonly prompts: readonly PromptId[]
  readonly commands: readonly CommandId[]
  readonly terminals: readonly { readonly id: TerminalId; readonly viewers: number }[]
}

/** Keeps what runs for someone, and tells when that changes. */
export class Uses {
  #prompts: readonly PromptId[] = []
  readonly #commands = new Set<CommandId>()
  readonly #terminals = new Map<TerminalId, number>()
  #version = 0
  #change = new AbortController()

  /** Another one after every change. */
  get version(): number {
    return this.#version
  }

  /** Fires at the next change. */
  get nextChange(): AbortSignal {
    return this.#change.signal
  }

  now(): InUse {
    return {
      prompts: this.#prompts,
      commands: [...this.#commands],
      terminals: [...this.#terminals].map(([id, viewers]) => ({ id, viewers })),
    }
  }

  setPrompts(prompts: readonly PromptId[]): void {
    this.#prompts = prompts
    this.changed()
  }

  /** Of a command that outlives whoever started it. */
  commandStarted(id: CommandId): void {
    this.#commands.add(id)
    this.changed()
  }

  commandEnded(id: CommandId): void {
    if (this.#commands.delete(id)) this.changed()
  }

  /** Of an open terminal. */
  setViewers(id: TerminalId, viewers: number): void {
    this.#terminals.set(id, viewers)
    this.changed()
  }

  terminalEnded(id: TerminalId): void {
    if (this.#terminals.delete(id)) this.changed()
  }

  /** For what changes beside these. */
  changed(): void {
    this.#version++
    const change = this.#change
    this.#change = new AbortController()
    change.abort()
  }
}
