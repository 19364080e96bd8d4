import type { PromptResult, PromptStart } from "@berth/protocol/bridge"
import type { EventBody } from "@berth/protocol/event"
import type { PromptId } from "@berth/protocol/ids"
import type { AskAnswer } from "@berth/protocol/session"

/** A file that the toolbox has for an agent, and where the agent expects it. */
export interface AgentFile {
  /** Path below the toolbox. */
  readonly from: string
  /** Path below the user's home, never in a repo. */
  readonly to: string
}

/** The result of a start or an attach, for the boot's trace. */
export interface AgentReport {
  readonly did: string
  readonly facts?: Readonly<Record<string, string | number | boolean>>
}

/** Records an event. Resolves when it is recorded, so a caller that awaits it is never faster than the journal. */
export type Say = (body: EventBody) => Promise<void>

/** The agent of a sandbox. `start` comes before `attach`, and `attach` before the first prompt. */
export interface Agent {
  readonly name: string
  /** Whether the agent can start before the repos are there, because it looks at no directory until `attach`. */
  readonly startsEarly: boolean
  /** The files that the agent needs in its own configuration directory. */
  readonly files: readonly AgentFile[]
  /** Starts the agent's process, and waits until it answers. */
  start(signal: AbortSignal, tell: (progress: string) => void): Promise<AgentReport>
  /** Names the directory to work in. From here on the agent looks at the repo. */
  attach(directory: string, signal: AbortSignal): Promise<AgentReport>
  /** Why the agent cannot take a prompt now; undefined when it can. */
  trouble(): string | undefined
  /** The last output of the agent's process, to explain why it does not start. */
  lastOutput(): string
  /**
   * Runs a prompt to its end, or until the signal stops it: then it returns the state `stopped`, or throws. No process
   * of the prompt remains after a stop.
   */
  prompt(start: PromptStart, say: Say, signal: AbortSignal): Promise<PromptResult>
  /** Passes on a person's answer to an ask of that prompt. Returns false if the agent does not wait for it. */
  answer(prompt: PromptId, answer: AskAnswer): boolean
}
