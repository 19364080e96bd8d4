import type { EventBody } from "@berth/protocol/event"
import { sayCut } from "@berth/protocol/say-cut"

/** Of what a tool was given: a line is read by people. */
const MAX_SHOWN_CHARS = 100

/** What an event says beside the agent's own text, in a line or a few; undefined: nothing that people look for. */
export const lineOf = (body: EventBody, toolOf: (call: string) => string): string | undefined => {
  switch (body.type) {
    case "tool.started":
      return `→ ${body.tool} ${shortened(body.input)}`
    case "tool.completed":
      return body.failed ? `✗ ${toolOf(body.call)} ${shortened(body.output)}` : undefined
    case "file.changed":
      return `± ${body.path}`
    case "todo.updated": {
      const done = body.todos.filter(({ state }) => state === "done").length
      const active = body.todos.find(({ state }) => state === "active")?.text
      return `☐ ${done} of ${body.todos.length} done  ${shortened(active)}`
    }
    case "permission.asked":
      return `? ${body.ask}: may the agent: ${body.about}`
    case "permission.answered":
      return `? ${body.ask}: ${body.allowed ? "allowed" : "denied"}`
    case "question.asked":
      return [
        `? ${body.ask}: ${body.question}`,
        ...body.choices.map((choice, index) => `  ${index + 1}. ${choice}`),
      ].join("\n")
    case "question.answered":
      return `? ${body.ask}: ${body.answer === null ? "declined" : `answered ${body.answer}`}`
    case "sandbox.phase":
      return `${body.sandbox} is ${body.phase}: ${body.reason}`
    case "boot.step.ended":
      if (body.outcome === "skipped") return undefined
      return `boot: ${body.step} ${body.outcome} after ${Math.round(body.ranMs)} ms`
    case "boot.ready":
      return `boot: ready after ${Math.round(body.atMs)} ms`
    case "boot.ending":
      return `boot: it ended early: ${body.ending.reason}`
    case "boot.warning":
    case "warning":
      return `warning: ${body.message}`
    case "error":
      return `error: ${body.message}\n  hint: ${body.hint}`
    case "output.cut":
      return `cut: ${sayCut(body)}`
    case "gap":
      return `gap: ${body.reason}`
    default:
      return undefined
  }
}

/** The beginning of it, on one line. */
export const shortened = (text = ""): string => {
  const line = text.replaceAll(/\s+/g, " ").trim()
  return line.length <= MAX_SHOWN_CHARS ? line : `${line.slice(0, MAX_SHOWN_CHARS - 1)}…`
}
