import type { Socket } from "node:net"
import type { Readable } from "node:stream"
import type { Activity } from "@berth/protocol/activity"
import type { BootTrace } from "@berth/protocol/boot"
import type { HostAnswer, HostRequest, PromptStanding, PromptStart } from "@berth/protocol/bridge"
import type { BerthError } from "@berth/protocol/errors"
import type { Event } from "@berth/protocol/event"
import type { PromptId, SandboxId } from "@berth/protocol/ids"
import type { AskAnswer } from "@berth/protocol/session"
import type { SharedDirectory } from "../state/shared-directories.ts"

/**
 * The connections to a sandbox. The code that connects lies beside this folder, not below it: `main.ts` passes it in.
 */
export interface Bridges {
  /** Keeps a connection until the signal fires. */
  open(options: BridgeCall, signal: AbortSignal): OpenBridge
  /** Connects to the HTTP server of the supervisor. The caller ends the connection. */
  dial(shared: SharedDirectory, signal: AbortSignal): Promise<Socket>
  /** Sends a stream to a path of the supervisor's HTTP server. */
  put(shared: SharedDirectory, path: string, body: Readable, signal: AbortSignal): Promise<void>
  /** Reads the events after that number from the journal of a sandbox that no longer runs. Any of them may be a lie. */
  left(shared: SharedDirectory, after: number): AsyncIterable<readonly Event[]>
  trace(shared: SharedDirectory, signal: AbortSignal): Promise<BootTrace>
  /**
   * Queries the activity of the sandbox. With `change`, the answer waits until the version is not `after`, for `waitMs` at
   * most.
   */
  activity(
    shared: SharedDirectory,
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
  readonly onHostRequest: (
    question: {
      readonly request: HostRequest
      readonly sendBundle: (body: Readable) => Promise<void>
      readonly openTunnel: () => Promise<Socket>
    },
    signal: AbortSignal,
  ) => Promise<HostAnswer>
  readonly onState: (state: { readonly kind: BridgeKind; readonly reason?: BerthError }) => void
}

export type BridgeKind = "connecting" | "up" | "down" | "closed"

export interface OpenBridge {
  readonly state: { readonly kind: BridgeKind }
  startPrompt(start: PromptStart): Promise<PromptStanding>
  stopPrompt(prompt: PromptId): Promise<PromptStanding>
  /** Rejects where the agent does not wait for an answer. */
  answerPrompt(prompt: PromptId, answer: AskAnswer): Promise<PromptStanding>
  readonly closed: Promise<void>
}
