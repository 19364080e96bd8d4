import type { EventBody } from "@berth/protocol/event"
import { sayCut } from "@berth/protocol/say-cut"

/** The characters shown of a tool's input: people read the line. */
const MAX_SHOWN_CHARS = 100

/** The event in a line or a few, beside the agent's own text; undefined: nothing that people look for. */
export const lineOf = (body: EventBody, toolOf: (call: string) => string): string | undefined => {
  switch (body.type) {
    case "tool.started":
      return `→ ${inLine(body.tool)} ${shortened(body.input)}`
    case "tool.completed":
      return body.failed ? `✗ ${inLine(toolOf(body.call))} ${shortened(body.output)}` : undefined
    case "file.changed":
      return `± ${inLine(body.path)}`
    case "todo.updated": {
      const done = body.todos.filter(({ state }) => state === "done").length
      const active = body.todos.find(({ state }) => state === "active")?.text
      return `☐ ${done} of ${body.todos.length} done  ${shortened(active)}`
    }
    case "permission.asked":
      return `? ${inLine(body.ask)}: may the agent: ${indented(body.about)}`
    case "permission.answered":
      return `? ${inLine(body.ask)}: ${body.allowed ? "allowed" : "denied"}`
    case "question.asked":
      return [
        `? ${inLine(body.ask)}: ${indented(body.question)}`,
        ...body.choices.map((choice, index) => `  ${index + 1}. ${inLine(choice)}`),
      ].join("\n")
    case "question.answered":
      return `? ${inLine(body.ask)}: ${body.answer === null ? "declined" : `answered ${indented(body.answer)}`}`
    case "sandbox.phase":
      return `${body.sandbox} is ${body.phase}: ${inLine(body.reason)}`
    case "boot.step.ended":
      if (body.outcome === "skipped") return undefined
      return `boot: ${inLine(body.step)} ${body.outcome} after ${Math.round(body.ranMs)} ms`
    case "boot.ready":
      return `boot: ready after ${Math.round(body.atMs)} ms`
    case "boot.ending":
      return `boot: it ended early: ${inLine(body.ending.reason)}`
    case "prompt.waiting":
      return `waiting: ${inLine(body.message)}`
    case "boot.warning":
    case "warning":
      return `warning: ${indented(body.message)}`
    case "error":
      return `error: ${indented(body.message)}\n  hint: ${inLine(body.hint)}`
    case "output.cut":
      return `cut: ${inLine(sayCut(body))}`
    case "gap":
      return `gap: ${inLine(body.reason)}`
    default:
      return undefined
  }
}

/** Puts foreign text on one line, so that no line of it looks like one of Berth's. */
const inLine = (text: string): string => text.replaceAll(/\s+/g, " ").trim()
const indented = (text: string): string => text.trimEnd().replaceAll("\n", "\n    ")

/** The beginning of a text, on one line. */
export const shortened = (text = ""): string => {
  const line = inLine(text)
  return line.length <= MAX_SHOWN_CHARS ? line : `${line.slice(0, MAX_SHOWN_CHARS - 1)}…`
}
