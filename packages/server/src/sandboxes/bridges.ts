import type { Socket } from "node:net"
import type { Readable } from "node:stream"
import type { Activity } from "@berth/protocol/activity"
import type { BootTrace } from "@berth/protocol/boot"
import type { Answer, Ask, PromptStanding, PromptStart } from "@berth/protocol/bridge"
import type { BerthError } from "@berth/protocol/errors"
import type { Event } from "@berth/protocol/event"
import type { PromptId, SandboxId } from "@berth/protocol/ids"
import type { AskAnswer } from "@berth/protocol/session"
import type { SandboxLink } from "./links.ts"

/** The ways to a sandbox. What connects lies beside this folder, not below it: `main.ts` passes it in. */
export interface Bridges {
  /** Keeps a connection until the signal fires. */
  open(options: BridgeCall, signal: AbortSignal): OpenBridge
  /** A connection to what the sandbox serves. Whoever gets it ends it. */
  dial(link: SandboxLink, signal: AbortSignal): Promise<Socket>
  /** Sends a stream to a path of what it serves. */
  put(link: SandboxLink, path: string, body: Readable, signal: AbortSignal): Promise<void>
  /** What is on disk of a sandbox that does not run any more, after that number. Any of it may be a lie. */
  left(link: SandboxLink, after: number): AsyncIterable<readonly Event[]>
  trace(link: SandboxLink, signal: AbortSignal): Promise<BootTrace>
  /** What lives in it: now, or when that is not what it was at the version `after`, or after so long. */
  activity(
    link: SandboxLink,
    change: { readonly after: number; readonly waitMs: number } | undefined,
    signal: AbortSignal,
  ): Promise<Activity>
}

export interface BridgeCall {
  readonly address: { readonly path: string }
  readonly token: string
  readonly sandbox: SandboxId
  readonly lastSeen: number
  readonly onEvents: (events: readonly Event[]) => Promise<void>
  readonly onAsk: (
    question: {
      readonly ask: Ask
      readonly sendBundle: (body: Readable) => Promise<void>
      readonly openTunnel: () => Promise<Socket>
    },
    signal: AbortSignal,
  ) => Promise<Answer>
  readonly onState: (state: { readonly kind: BridgeKind; readonly reason?: BerthError }) => void
}

export type BridgeKind = "connecting" | "up" | "down" | "closed"

export interface OpenBridge {
  readonly state: { readonly kind: BridgeKind }
  startPrompt(start: PromptStart): Promise<PromptStanding>
  stopPrompt(prompt: PromptId): Promise<PromptStanding>
  /** Rejects where the agent does not wait for it. */
  answerPrompt(prompt: PromptId, answer: AskAnswer): Promise<PromptStanding>
  readonly closed: Promise<void>
}
