/**
 * An ACP agent without a model, which obeys prompts of the form `ORDER: WHAT`. Tests use it for faults that no real
 * agent shows at will.
 */
import { spawn } from "node:child_process"
import { appendFileSync, closeSync, existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Readable, Writable } from "node:stream"
import {
  type AgentContext,
  agent,
  methods,
  ndJsonStream,
  RequestError,
  type SessionUpdate,
} from "@agentclientprotocol/sdk/unstable"

const FILE = join(process.env.HOME ?? "/", "scripted-sessions.json")
/** Where it exists, new conversations are noted in it, and never opened. */
const UNOPENED = join(process.env.HOME ?? "/", "scripted-unopened")
const sessions = new Map<string, string[]>(
  existsSync(FILE) ? Object.entries(JSON.parse(readFileSync(FILE, "utf8"))) : [],
)
const modes = new Map<string, string>()
const cancels = new Map<string, AbortController>()
const { update, requestPermission } = methods.client.session
const { fs, terminal } = methods.client

interface Turn {
  readonly sessionId: string
  readonly what: string
  readonly client: AgentContext
  readonly signal: AbortSignal
}

const tell = ({ client, sessionId }: Turn, told: SessionUpdate) =>
  client.notify(update, { sessionId, update: told })

const say = (turn: Turn, text: string) =>
  tell(turn, { sessionUpdate: "agent_message_chunk", content: { type: "text", text } })

const aborted = (signal: AbortSignal) =>
  new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()))

const ORDERS: Record<string, (turn: Turn) => Promise<unknown>> = {
  say: async (turn) => {
    for (const piece of turn.what.split("|")) await say(turn, piece)
  },
  remember: (turn) => say(turn, (sessions.get(turn.sessionId) ?? []).join(",")),
  environment: (turn) => say(turn, String(process.env[turn.what])),
  mode: (turn) => say(turn, modes.get(turn.sessionId) ?? "none"),
  plan: (turn) =>
    tell(turn, {
      sessionUpdate: "plan",
      entries: [
        { content: turn.what, priority: "high", status: "in_progress" },
        { content: "later", priority: "low", status: "pending" },
      ],
    }),
  tool: async (turn) => {
    const call = { toolCallId: "call-1", title: "look", kind: "edit" } as const
    await say(turn, "before")
    await tell(turn, { sessionUpdate: "tool_call", ...call, rawInput: {}, status: "pending" })
    await tell(turn, {
      sessionUpdate: "tool_call_update",
      toolCallId: "call-1",
      status: "in_progress",
      rawInput: { path: turn.what },
    })
    await tell(turn, {
      sessionUpdate: "tool_call_update",
      toolCallId: "call-1",
      status: "completed",
      content: [
        { type: "content", content: { type: "text", text: "done it" } },
        { type: "diff", path: turn.what, oldText: null, newText: "x" },
      ],
    })
    await say(turn, "after")
  },
  permission: async (turn) => {
    const { outcome } = await turn.client.request(requestPermission, {
      sessionId: turn.sessionId,
      toolCall: { toolCallId: "call-2", title: turn.what, rawInput: { force: true } },
      options: [
        { optionId: "always", name: "Always", kind: "allow_always" },
        { optionId: "yes", name: "Yes", kind: "allow_once" },
        { optionId: "no", name: "No", kind: "reject_once" },
      ],
    })
    await say(turn, outcome.outcome === "selected" ? outcome.optionId : outcome.outcome)
  },
  read: async (turn) => {
    const [path = "", line, limit] = turn.what.split(" ")
    const range = line ? { line: Number(line), limit: Number(limit) } : {}
    const { sessionId } = turn
    const { content } = await turn.client.request(fs.readTextFile, { sessionId, path, ...range })
    await say(turn, content)
  },
  write: async (turn) => {
    const { sessionId, what: path } = turn
    await turn.client.request(fs.writeTextFile, { sessionId, path, content: "written\n" })
  },
  run: async (turn) => {
    const { client, sessionId, what: command } = turn
    const made = { sessionId, command, outputByteLimit: 20 }
    const opened = await client.createTerminal(made)
    const { exitCode, signal } = await opened.waitForExit()
    const { output, truncated } = await opened.currentOutput()
    await opened.release()
    await say(turn, JSON.stringify({ exitCode, signal, output, truncated }))
  },
  leave: async ({ client, sessionId, what: command, signal }) => {
    await client.request(terminal.create, { sessionId, command })
    await aborted(signal)
  },
  wait: async (turn) => {
    const child = spawn("sleep", ["1000"])
    spawn("sh", ["-c", "(setsid sleep 1000 &)"])
    await say(turn, "waiting")
    await aborted(turn.signal)
    child.kill("SIGKILL")
  },
  ignore: async (turn) => {
    spawn("sh", ["-c", "setsid sleep 1000 & sleep 1000"])
    await say(turn, "ignoring")
    await new Promise(() => {})
  },
  crash: async () => process.exit(3),
  /** Closes its standard input (0) or output (1), and works on. */
  close: async (turn) => {
    spawn("sleep", ["1000"])
    const closed = Number(turn.what)
    // The input is closed before the client hears of it, so that the client writes nothing that is never read.
    if (closed === 0) closeSync(closed)
    await say(turn, "closing")
    if (closed !== 0) closeSync(closed)
    await new Promise((resolve) => setTimeout(resolve, 1_000_000))
  },
  /** Closes its standard input, and answers all the same. */
  deafen: async (turn) => {
    closeSync(0)
    await say(turn, turn.what)
  },
  fail: async ({ what }) => {
    throw new RequestError(Number(what), "it went wrong", { details: "the model refused" })
  },
  flood: async (turn) => {
    for (let count = 0; count < Number(turn.what); count++) await say(turn, "x".repeat(1000))
  },
  /** Sends many requests at once, and says how many were refused before any was answered. */
  pester: async (turn) => {
    const [count = 0, kept = 0] = turn.what.split(" ").map(Number)
    const isOver = Promise.withResolvers<void>()
    let refused = 0
    const onRefused = () => {
      if (++refused === count - kept) isOver.resolve()
    }
    for (let place = 0; place < count; place++)
      turn.client
        .request(requestPermission, {
          sessionId: turn.sessionId,
          toolCall: { toolCallId: `call-${place}`, title: "again" },
          options: [{ optionId: "yes", name: "Yes", kind: "allow_once" }],
        })
        .catch(onRefused)
    await isOver.promise
    await say(turn, String(refused))
  },
  /** Opens many terminals at once, and says how many it got. */
  open: async (turn) => {
    const { client, sessionId } = turn
    const opened = await Promise.allSettled(
      Array.from({ length: Number(turn.what) }, () =>
        client.request(terminal.create, { sessionId, command: "exec sleep 1000" }),
      ),
    )
    await say(turn, String(opened.filter(({ status }) => status === "fulfilled").length))
  },
  /** Reports a tool call whose input is nested to a given depth. */
  nest: async (turn) => {
    const depth = Number(turn.what)
    const told = JSON.stringify({
      jsonrpc: "2.0",
      method: update,
      params: {
        sessionId: turn.sessionId,
        update: {
          sessionUpdate: "tool_call",
          toolCallId: "deep",
          title: "deep",
          status: "in_progress",
          rawInput: "NEST",
        },
      },
    })
    const nested = "[".repeat(depth) + "]".repeat(depth)
    const line = `${told.replace('"NEST"', nested)}\n`
    await new Promise((resolve) => process.stdout.write(line, resolve))
    await say(turn, "still here")
  },
  garbage: async (turn) => {
    process.stdout.write('hello\n{"jsonrpc":1}\n[]\n{"jsonrpc":"2.0","method":"session/update"}\n')
    await say(turn, "still here")
  },
}

const { initialize, session } = methods.agent
const canLoad = process.argv[2] !== "forgetful"

agent({ name: "scripted" })
  .onRequest(initialize, ({ params }) => ({
    protocolVersion: params.protocolVersion,
    agentInfo: { name: "scripted", version: "7" },
    agentCapabilities: { loadSession: canLoad },
  }))
  .onRequest(session.new, async () => {
    if (existsSync(UNOPENED)) {
      appendFileSync(UNOPENED, ".")
      await new Promise(() => {})
    }
    const sessionId = `scripted-${process.pid}-${sessions.size}`
    sessions.set(sessionId, [])
    return { sessionId }
  })
  .onRequest(session.load, async ({ params: { sessionId }, client }) => {
    const said = sessions.get(sessionId)
    if (said === undefined) throw RequestError.resourceNotFound(sessionId)
    const turn = { sessionId, client, what: "", signal: new AbortController().signal }
    for (const each of said) await say(turn, `replayed ${each}`)
    return {}
  })
  .onRequest(session.setMode, ({ params: { sessionId, modeId } }) => {
    if (modeId !== "careful") throw RequestError.invalidParams({ details: `no mode ${modeId}` })
    modes.set(sessionId, modeId)
    return {}
  })
  .onNotification(session.cancel, ({ params }) => cancels.get(params.sessionId)?.abort())
  .onRequest(session.prompt, async ({ params: { sessionId, prompt }, client }) => {
    const cancel = new AbortController()
    cancels.set(sessionId, cancel)
    const [first, ...links] = prompt
    const text = first?.type === "text" ? first.text : ""
    const [, order = "", what = ""] = /^(\w+):? ?(.*)$/s.exec(text) ?? []
    const turn = { sessionId, what, client, signal: cancel.signal }
    for (const link of links) if (link.type === "resource_link") await say(turn, `${link.uri} `)
    await ORDERS[order]?.(turn)
    sessions.get(sessionId)?.push(text)
    writeFileSync(FILE, JSON.stringify(Object.fromEntries(sessions)))
    const usage = { totalTokens: 12, inputTokens: 10, outputTokens: 2 }
    return { stopReason: cancel.signal.aborted ? "cancelled" : "end_turn", usage }
  })
  .connect(
    ndJsonStream(
      Writable.toWeb(process.stdout),
      Readable.toWeb(process.stdin) as ReadableStream<Uint8Array>,
    ),
  )
