import { MAX_NAME_CHARS, MAX_TOOL_TEXT_CHARS } from "@berth/protocol/session-limits"

/** The beginning of a text; a character of two units stays whole. */
export const clip = (text: string, chars: number): string => {
  if (text.length <= chars) return text
  const last = text.charCodeAt(chars - 1)
  return text.slice(0, last >= 0xd800 && last < 0xdc00 ? chars - 1 : chars)
}

/** A name that an agent gives. A long one is copied, since the beginning of a text keeps the whole of it in memory. */
export const nameIn = (value: unknown): string => {
  if (typeof value !== "string") return ""
  if (value.length <= MAX_NAME_CHARS) return value
  return Buffer.from(clip(value, MAX_NAME_CHARS)).toString()
}

/** What a tool was given or gave back, as text; undefined where there is nothing. */
export const toolText = (value: unknown): string | undefined => {
  if (value === undefined || value === null || value === "") return undefined
  return clip(typeof value === "string" ? value : JSON.stringify(value), MAX_TOOL_TEXT_CHARS)
}
