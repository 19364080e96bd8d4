import {
  type ClientContext,
  client,
  methods,
  PROTOCOL_VERSION,
  type RequestPermissionRequest,
  type RequestPermissionResponse,
  type Stream,
} from "@agentclientprotocol/sdk/unstable"
import type { Clock } from "../../processes/clock.ts"
import type { Conversation } from "../../processes/spec.ts"
import { objectIn, textIn } from "../read.ts"
import { InputWatch } from "./input-watch.ts"
import { messagesIn, writeMessage } from "./messages.ts"
import type { Terminals } from "./terminals.ts"
import { Unanswered } from "./unanswered.ts"
import type { UserFiles } from "./user-files.ts"

/** Berth's side of the protocol: handlers for the agent's notifications and requests. */
export interface Served {
  /** Handles an update of a conversation. */
  update(session: string, update: unknown): Promise<void>
  permission(request: RequestPermissionRequest): Promise<RequestPermissionResponse>
  /** Called after a file was written at the agent's request. */
  wrote(session: string, path: string): Promise<void>
  readonly files: UserFiles
  readonly terminals: Terminals
}

/** The agent's name, version and protocol capabilities, from its answer to `initialize`. */
export interface Abilities {
  readonly name: string
  readonly version: string
  /** The method that resumes a conversation of an earlier process of the agent; undefined if it has none. */
  readonly takesUp: "session/resume" | "session/load" | undefined
}

/** The connection to one process of an agent, over its standard input and output. */
export interface Connection {
  readonly agent: ClientContext
  /** Fires when the connection has closed. */
  readonly over: AbortSignal
  readonly initialized: Promise<Abilities>
}

/**
 * Opens the connection. This file is loaded only when an agent starts: the library is too large for every supervisor's
 * start.
 */
export const openConnection = (
  { stdin, stdout, exited }: Conversation,
  served: Served,
  clock: Clock,
): Connection => {
  const ended = new AbortController()
  const onClosed = () => opened.close(new Error("the agent has closed its input"))
  const input = new InputWatch({ stdin, exited, clock, over: ended.signal, onClosed })
  const opened = serve(served).connect(streamOf({ stdin, stdout }, served, input))
  const { agent, signal: over } = opened
  over.addEventListener("abort", () => ended.abort(), { once: true })
  const initialized = initialize(agent)
  // A failure reaches the caller that awaits `initialized`.
  initialized.catch(() => {})
  return { agent, over, initialized }
}

const initialize = async (agent: ClientContext): Promise<Abilities> => {
  const { agentCapabilities, agentInfo } = await agent.request(methods.agent.initialize, {
    protocolVersion: PROTOCOL_VERSION,
    clientInfo: { name: "berth", version: "1" },
    clientCapabilities: { fs: { readTextFile: true, writeTextFile: true }, terminal: true },
  })
  const canLoad = agentCapabilities?.loadSession === true
  const canResume = agentCapabilities?.sessionCapabilities?.resume
  return {
    name: agentInfo?.name ?? "the agent",
    version: agentInfo?.version ?? "unknown",
    takesUp: canResume ? "session/resume" : canLoad ? "session/load" : undefined,
  }
}

/**
 * Handles updates here, in order and before any later message. The library would handle them concurrently, and would
 * read on meanwhile.
 */
const streamOf = (
  { stdin, stdout }: Pick<Conversation, "stdin" | "stdout">,
  served: Served,
  input: InputWatch,
): Stream => {
  const unanswered = new Unanswered()
  async function* others(): AsyncGenerator<Readonly<Record<string, unknown>>> {
    for await (const message of messagesIn(stdout)) {
      input.heard(message)
      const { sessionId, update } = objectIn(message.params)
      if (message.method === methods.client.session.update)
        await served.update(textIn(sessionId) ?? "", update)
      else {
        const taken = unanswered.take(message)
        if (typeof taken === "object") await writeMessage(stdin, taken)
        else if (taken === "pass") yield message
      }
    }
  }
  return {
    readable: ReadableStream.from(others()) as Stream["readable"],
    writable: new WritableStream({
      write: (message) => {
        unanswered.said(message)
        input.said(message)
        return writeMessage(stdin, message)
      },
    }),
  }
}

const serve = ({ permission, wrote, files, terminals }: Served) => {
  const { session, fs, terminal } = methods.client
  return client({ name: "berth" })
    .onRequest(session.requestPermission, ({ params }) => permission(params))
    .onRequest(fs.readTextFile, async ({ params: { path, line, limit } }) => ({
      content: await files.read(path, { line: line ?? undefined, limit: limit ?? undefined }),
    }))
    .onRequest(fs.writeTextFile, async ({ params: { path, content, sessionId } }) => {
      await files.write(path, content)
      await wrote(sessionId, path)
      return {}
    })
    .onRequest(terminal.create, async ({ params }) => ({
      terminalId: await terminals.create(params),
    }))
    .onRequest(terminal.output, ({ params }) => terminals.output(params.terminalId))
    .onRequest(terminal.waitForExit, ({ params }) => terminals.exited(params.terminalId))
    .onRequest(terminal.kill, async ({ params }) => {
      await terminals.end(params.terminalId)
      return {}
    })
    .onRequest(terminal.release, async ({ params }) => {
      await terminals.release(params.terminalId)
      return {}
    })
}
