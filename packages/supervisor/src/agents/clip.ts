import { MAX_TOOL_TEXT_CHARS } from "@berth/protocol/session-limits"

/** The beginning of a text; a character of two units stays whole. */
export const clip = (text: string, chars: number): string => {
  if (text.length <= chars) return text
  const last = text.charCodeAt(chars - 1)
  return text.slice(0, last >= 0xd800 && last < 0xdc00 ? chars - 1 : chars)
}

/** What a tool was given or gave back, as text; undefined where there is nothing. */
export const toolText = (value: unknown): string | undefined => {
  if (value === undefined || value === null || value === "") return undefined
  return clip(typeof value === "string" ? value : JSON.stringify(value), MAX_TOOL_TEXT_CHARS)
}
