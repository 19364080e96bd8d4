/*
 * JSON from an agent, which is parsed only if it is modest: neither deep nor of very many values.
 */

/**
 * How deep objects and lists may nest. Agents' messages have a few levels; code that recurses into them has a small
 * stack.
 */
const MAX_DEPTH = 128

/** Limit of the objects, lists and elements of a message. A file's content is one value, however long. */
const MAX_VALUES = 250_000

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c

/**
 * Parses an agent's message. Throws if it is too deep or has too many values, since a value costs far more memory than
 * its byte.
 */
export const parseModest = (text: string): unknown => {
  requireModest(text)
  return JSON.parse(text)
}

/** Counts levels and values in the text as it is, so that a message with too many is never parsed. */
const requireModest = (text: string): void => {
  let depth = 0
  let values = 0
  for (let place = 0; place < text.length; place++) {
    const unit = text.charCodeAt(place)
    if (unit === QUOTE) place = endOfString(text, place)
    // An opening bracket or brace; below, a closing one.
    else if (unit === 0x5b || unit === 0x7b) {
      depth++
      values++
    } else if (unit === 0x5d || unit === 0x7d) depth--
    else if (unit === COMMA) values++
    if (depth > MAX_DEPTH || values > MAX_VALUES)
      throw new RangeError("that is no word of an agent")
  }
}

/** The position of the quote that ends the string which begins here, or the text's length if there is none. */
const endOfString = (text: string, begin: number): number => {
  for (let at = text.indexOf('"', begin + 1); at !== -1; at = text.indexOf('"', at + 1)) {
    let escapes = 0
    while (text.charCodeAt(at - 1 - escapes) === BACKSLASH) escapes++
    if (escapes % 2 === 0) return at
  }
  return text.length
}
