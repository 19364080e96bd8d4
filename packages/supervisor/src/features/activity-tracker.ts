import type { CommandId } from "@berth/protocol/commands"
import type { PromptId } from "@berth/protocol/ids"
import type { TerminalId } from "@berth/protocol/terminals"

/** The prompts, background commands and terminals that run now, as reported by their owners. */
export interface TrackedActivity {
  readonly prompts: readonly PromptId[]
  readonly commands: readonly CommandId[]
  readonly terminals: readonly { readonly id: TerminalId; readonly viewers: number }[]
}

/** Keeps track of what runs in the sandbox, and reports changes. */
export class ActivityTracker {
  #prompts: readonly PromptId[] = []
  readonly #commands = new Set<CommandId>()
  readonly #terminals = new Map<TerminalId, number>()
  #version = 0
  #change = new AbortController()

  /** A number that differs after every change. */
  get version(): number {
    return this.#version
  }

  /** Fires at the next change. */
  get nextChange(): AbortSignal {
    return this.#change.signal
  }

  now(): TrackedActivity {
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

  /** Adds a command that outlives the connection that started it. */
  commandStarted(id: CommandId): void {
    this.#commands.add(id)
    this.changed()
  }

  commandEnded(id: CommandId): void {
    if (this.#commands.delete(id)) this.changed()
  }

  /** Sets the number of viewers of an open terminal. */
  setViewers(id: TerminalId, viewers: number): void {
    this.#terminals.set(id, viewers)
    this.changed()
  }

  terminalEnded(id: TerminalId): void {
    if (this.#terminals.delete(id)) this.changed()
  }

  /** Reports a change, also of something that is not tracked here. */
  changed(): void {
    this.#version++
    const change = this.#change
    this.#change = new AbortController()
    change.abort()
  }
}
