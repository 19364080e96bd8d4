import type { EventBody } from "@berth/protocol/event"

/** Limit of one event's text. JSON may write each character as six bytes, and an event may have 256 KiB. */
export const MAX_DELTA_CHARS = 32 * 1024

/**
 * Joins consecutive deltas of a message, since each event costs a write, and splits those that are too long for one
 * event.
 */
export const together = (bodies: readonly EventBody[]): EventBody[] => {
  const joined: EventBody[] = []
  for (const body of bodies) {
    const last = joined.at(-1)
    if (
      body.type === "message.delta" &&
      last?.type === "message.delta" &&
      last.message === body.message
    )
      joined[joined.length - 1] = { ...last, text: last.text + body.text }
    else joined.push(body)
  }
  return joined.flatMap(cut)
}

const cut = (body: EventBody): EventBody[] => {
  if (body.type !== "message.delta") return [body]
  const pieces: EventBody[] = []
  for (let from = 0; from < body.text.length; ) {
    const to = from + MAX_DELTA_CHARS
    // Keeps a surrogate pair whole.
    const end = isHighSurrogate(body.text.charCodeAt(to - 1)) ? to - 1 : to
    pieces.push({ ...body, text: body.text.slice(from, end) })
    from = end
  }
  return pieces
}

const isHighSurrogate = (unit: number): boolean => unit >= 0xd800 && unit < 0xdc00
