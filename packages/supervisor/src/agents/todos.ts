import type { Todo } from "@berth/protocol/event"
import { MAX_TODO_CHARS, MAX_TODOS } from "@berth/protocol/session-limits"
import { clip } from "./clip.ts"

/** Of one event: JSON may write each character as six bytes, and one event has 256 KiB. */
const MAX_CHARS = 32 * 1024

/** A plan that one event can hold: of a long one, the beginning of each part. */
export const fittingTodos = (todos: readonly Todo[]): Todo[] => {
  const some = todos.slice(0, MAX_TODOS)
  const chars = Math.min(MAX_TODO_CHARS, Math.floor(MAX_CHARS / Math.max(1, some.length)))
  return some.map(({ text, state }) => ({ text: clip(text, chars), state }))
}
