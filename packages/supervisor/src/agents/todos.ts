import type { Todo } from "@berth/protocol/event"
import { MAX_TODO_CHARS, MAX_TODOS } from "@berth/protocol/session-limits"
import { clip } from "./clip.ts"

/** Limit of one event's text. JSON may write each character as six bytes, and an event may have 256 KiB. */
const MAX_CHARS = 32 * 1024

/** Cuts a plan to what one event can hold: fewer entries, and of each the beginning. */
export const fittingTodos = (todos: readonly Todo[]): Todo[] => {
  const some = todos.slice(0, MAX_TODOS)
  const chars = Math.min(MAX_TODO_CHARS, Math.floor(MAX_CHARS / Math.max(1, some.length)))
  return some.map(({ text, state }) => ({ text: clip(text, chars), state }))
}
