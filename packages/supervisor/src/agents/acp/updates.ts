import type { EventBody, Todo } from "@berth/protocol/event"
import type { PromptId } from "@berth/protocol/ids"
import { MAX_NAME_CHARS, MAX_TOOL_TEXT_CHARS } from "@berth/protocol/session-limits"
import { clip, toolText } from "../clip.ts"
import { type Json, listIn, objectIn, textIn } from "../read.ts"
import { fittingTodos } from "../todos.ts"

/** Bound on the tool calls remembered for one prompt. No agent comes near it; it keeps memory from filling. */
const MAX_CALLS = 20_000
const MAX_PATH_CHARS = 4096

interface Call {
  state: "announced" | "started" | "completed"
  tool: string
  kind: string
  input: unknown
  output: unknown
  /** The call's output so far, from agents that report it in pieces. */
  said: string
  content: readonly Json[]
  locations: readonly Json[]
}

/** Turns an agent's updates during one prompt into Berth's events. */
export class Updates {
  readonly #prompt: PromptId
  /** Returns the output of a terminal that the agent opened. */
  readonly #terminalText: (id: string) => string | undefined
  readonly #calls = new Map<string, Call>()
  readonly #changed = new Set<string>()
  #message: string | undefined
  #messages = 0
  #lastText = ""
  #hasFailed = false

  constructor(
    prompt: PromptId,
    terminalText: (id: string) => string | undefined = () => undefined,
  ) {
    this.#prompt = prompt
    this.#terminalText = terminalText
  }

  hear(value: unknown): EventBody[] {
    const update = objectIn(value)
    switch (update.sessionUpdate) {
      case "agent_message_chunk":
        return this.#text(update)
      case "tool_call":
      case "tool_call_update":
        return this.#call(update)
      case "plan":
        return this.#plan(listIn(update.entries))
      case "session_info_update":
        this.#hasFailed = saysFailed(update) ?? this.#hasFailed
        return []
      default:
        return []
    }
  }

  /** Why the prompt failed, in the agent's own words, if the agent reported that outside the protocol. */
  get failure(): string | undefined {
    return this.#hasFailed ? this.#lastText || "it did not say why" : undefined
  }

  /** Notes a call when the agent asks permission for it, as that starts the call. */
  begin(toolCall: unknown): EventBody[] {
    const call = this.#note(objectIn(toolCall))
    return call === undefined ? [] : this.#start(...call)
  }

  wrote(path: string): EventBody[] {
    if (this.#changed.has(path) || path.length > MAX_PATH_CHARS) return []
    if (this.#changed.size < MAX_CALLS) this.#changed.add(path)
    return [{ type: "file.changed", prompt: this.#prompt, path }]
  }

  /** Returns the end events of calls and messages that never ended. */
  close(): EventBody[] {
    const open = [...this.#calls].filter(([, { state }]) => state === "started")
    return [...open.map(([call]) => this.#completed(call, true, undefined)), ...this.#endMessage()]
  }

  #text({ content, messageId }: Json): EventBody[] {
    const { type, text } = objectIn(content)
    if (type !== "text" || typeof text !== "string" || text === "") return []
    const named = textIn(messageId)
    const isOther = named !== undefined && this.#message !== undefined && named !== this.#message
    const ended = isOther ? this.#endMessage() : []
    this.#message ??= clip(named ?? `${this.#prompt}-${++this.#messages}`, MAX_NAME_CHARS)
    const [prompt, message] = [this.#prompt, this.#message]
    this.#lastText = clip(ended.length > 0 ? text : this.#lastText + text, MAX_TOOL_TEXT_CHARS)
    return [...ended, { type: "message.delta", prompt, message, text }]
  }

  #endMessage(): EventBody[] {
    const message = this.#message
    this.#message = undefined
    return message === undefined
      ? []
      : [{ type: "message.completed", prompt: this.#prompt, message }]
  }

  /**
   * Handles an update of a call. A pending call is not announced yet: most agents send its input only with the second
   * update.
   */
  #call(update: Json): EventBody[] {
    const isKnown = this.#calls.has(idOf(update))
    const noted = this.#note(update)
    if (noted === undefined) return []
    const [id, call] = noted
    const isEnd = update.status === "completed" || update.status === "failed"
    const isClear = isKnown || isEnd || update.status === "in_progress"
    const started = isClear ? this.#start(id, call) : []
    if (!isEnd || call.state !== "started") return started
    call.state = "completed"
    const failed = update.status === "failed"
    const changed = failed ? [] : pathsIn(call).flatMap((path) => this.wrote(path))
    const body = this.#completed(id, failed, this.#outputOf(call))
    // The same files may be changed by another call, which is reported again.
    for (const path of pathsIn(call)) this.#changed.delete(path)
    return [...started, ...changed, body]
  }

  #note(update: Json): [string, Call] | undefined {
    const id = idOf(update)
    const known = this.#calls.get(id)
    if (known === undefined && this.#calls.size >= MAX_CALLS) return undefined
    const call: Call = known ?? {
      state: "announced",
      tool: "",
      kind: "",
      input: undefined,
      output: undefined,
      said: "",
      content: [],
      locations: [],
    }
    this.#calls.set(id, call)
    const title = textIn(update.title)
    const name = textIn(update.name) ?? (call.tool === "" ? title : undefined)
    if (name !== undefined) call.tool = clip(name, MAX_NAME_CHARS)
    call.kind = textIn(update.kind) ?? call.kind
    if (hasWords(update.rawInput)) call.input = update.rawInput
    if (hasWords(update.rawOutput)) call.output = update.rawOutput
    call.said = clip(call.said + chunkIn(update), MAX_TOOL_TEXT_CHARS)
    if (Array.isArray(update.content)) call.content = update.content.map(objectIn)
    if (Array.isArray(update.locations)) call.locations = update.locations.map(objectIn)
    return [id, call]
  }

  #start(id: string, call: Call): EventBody[] {
    if (call.state !== "announced") return []
    call.state = "started"
    const input = toolText(call.input)
    return [
      ...this.#endMessage(),
      {
        type: "tool.started",
        prompt: this.#prompt,
        call: id,
        tool: call.tool || call.kind,
        ...(input !== undefined && { input }),
      },
    ]
  }

  #completed(call: string, failed: boolean, output: string | undefined): EventBody {
    return {
      type: "tool.completed",
      prompt: this.#prompt,
      call,
      failed,
      ...(output !== undefined && { output }),
    }
  }

  #outputOf({ content, said, output }: Call): string | undefined {
    const texts = content.flatMap((each) => {
      if (each.type === "terminal") return this.#terminalText(textIn(each.terminalId) ?? "") ?? []
      return textIn(objectIn(each.content).text) ?? []
    })
    if (texts.length > 0) return toolText(texts.join("\n"))
    if (said !== "") return said
    return toolText(textIn(objectIn(output).output) ?? output)
  }

  #plan(entries: readonly unknown[]): EventBody[] {
    const todos = entries.map((entry) => todoIn(objectIn(entry)))
    return [{ type: "todo.updated", prompt: this.#prompt, todos: fittingTodos(todos) }]
  }
}

const idOf = ({ toolCallId }: Json): string => clip(textIn(toolCallId) ?? "", MAX_NAME_CHARS)

/** A piece of a command's output. Several agents send it, though the protocol does not define it. */
const chunkIn = ({ _meta }: Json): string => {
  const { terminal_output_delta: delta, terminal_output: output } = objectIn(_meta)
  return textIn(objectIn(delta).data) ?? textIn(objectIn(output).data) ?? ""
}

const hasWords = (value: unknown): boolean =>
  typeof value === "object" && value !== null
    ? Object.keys(value).length > 0
    : value !== undefined && value !== null && value !== ""

/**
 * Whether Codex reports a failure. It ends a turn that its model refused like any other, and reports the failure only
 * here.
 */
const saysFailed = ({ _meta }: Json): boolean | undefined => {
  const { type } = objectIn(objectIn(objectIn(_meta).codex).threadStatus)
  return typeof type === "string" ? type === "systemError" : undefined
}

const CHANGING = new Set(["edit", "delete", "move"])

/** The paths that a call changed: those of its diffs, or else its locations. */
const pathsIn = ({ kind, content, locations }: Call): string[] => {
  const diffs = content.filter(({ type }) => type === "diff")
  const places = diffs.length > 0 ? diffs : CHANGING.has(kind) ? locations : []
  return [...new Set(places.flatMap(({ path }) => textIn(path) ?? []))]
}

const TODO_STATES: Readonly<Record<string, Todo["state"]>> = {
  in_progress: "active",
  completed: "done",
}

const todoIn = ({ content, status }: Json): Todo => ({
  text: textIn(content) ?? "",
  state: TODO_STATES[textIn(status) ?? ""] ?? "pending",
})
