import { MAX_NAME_CHARS, MAX_TOOL_TEXT_CHARS } from "@berth/protocol/session-limits"

/** Cuts a text to a length, without splitting a surrogate pair. */
export const clip = (text: string, chars: number): string => {
  if (text.length <= chars) return text
  const last = text.charCodeAt(chars - 1)
  return text.slice(0, last >= 0xd800 && last < 0xdc00 ? chars - 1 : chars)
}

/** A name that an agent gave, clipped. A clipped one is copied, since a slice keeps the whole text in memory. */
export const nameIn = (value: unknown): string => {
  if (typeof value !== "string") return ""
  if (value.length <= MAX_NAME_CHARS) return value
  return Buffer.from(clip(value, MAX_NAME_CHARS)).toString()
}

/** A tool's input or output as text; undefined if there is none. */
export const toolText = (value: unknown): string | undefined => {
  if (value === undefined || value === null || value === "") return undefined
  return clip(typeof value === "string" ? value : JSON.stringify(value), MAX_TOOL_TEXT_CHARS)
}
