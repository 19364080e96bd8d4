import type { PromptResult, PromptStart } from "@berth/protocol/bridge"
import type { EventBody } from "@berth/protocol/event"
import type { PromptId } from "@berth/protocol/ids"
import type { AskAnswer } from "@berth/protocol/session"

/** What the toolbox has for an agent, and where the agent looks for it. */
export interface AgentFile {
  /** Below the toolbox. */
  readonly from: string
  /** Below the user's home, never in a repo. */
  readonly to: string
}

/** What an agent did at a start or an attach, for the boot's trace. */
export interface AgentReport {
  readonly did: string
  readonly facts?: Readonly<Record<string, string | number | boolean>>
}

/** Passes on what an agent does. It resolves when it is recorded: whoever waits for it is never too fast. */
export type Say = (body: EventBody) => Promise<void>

/** One agent of a sandbox. `start` comes before `attach`, and `attach` before the first prompt. */
export interface Agent {
  readonly name: string
  /** Whether it can start before the repos are there, because it looks at no directory until `attach`. */
  readonly startsEarly: boolean
  /** What it needs in its own configuration directory. */
  readonly files: readonly AgentFile[]
  /** Starts its process, and waits until it answers. */
  start(signal: AbortSignal, tell: (progress: string) => void): Promise<AgentReport>
  /** Names the directory that it is to work in: from here on it looks at the repo. */
  attach(directory: string, signal: AbortSignal): Promise<AgentReport>
  /** Why it cannot take a prompt right now; undefined when it can. */
  trouble(): string | undefined
  /** What its process wrote last, for whoever wonders why it does not start. */
  lastOutput(): string
  /** Runs a prompt to its end. The signal stops it; it ends with nothing of its own running. */
  prompt(start: PromptStart, say: Say, signal: AbortSignal): Promise<PromptResult>
  /** To what it asked in that prompt. False: it does not wait for it, or not any more. */
  answer(prompt: PromptId, answer: AskAnswer): boolean
}
