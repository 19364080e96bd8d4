/** Levels of objects and lists. What agents say has a few; code that goes down them one by one has a small stack. */
const MAX_DEPTH = 128

/** Objects, lists and what is in them. A file is one value, however long it is. */
const MAX_VALUES = 250_000

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c

/** Parses what an agent says. Throws where it has too many values: a value costs far more memory than its byte. */
export const parseModest = (text: string): unknown => {
  requireModest(text)
  return JSON.parse(text)
}

const requireModest = (text: string): void => {
  let depth = 0
  let values = 0
  for (let place = 0; place < text.length; place++) {
    const unit = text.charCodeAt(place)
    if (unit === QUOTE) place = endOfString(text, place)
    // An opening bracket, and a closing one, of either kind.
    else if (unit === 0x5b || unit === 0x7b) {
      depth++
      values++
    } else if (unit === 0x5d || unit === 0x7d) depth--
    else if (unit === COMMA) values++
    if (depth > MAX_DEPTH || values > MAX_VALUES)
      throw new RangeError("that is no word of an agent")
  }
}

/** The place of the quote that ends the string which begins at this one; the text's end, where there is none. */
const endOfString = (text: string, begin: number): number => {
  for (let at = text.indexOf('"', begin + 1); at !== -1; at = text.indexOf('"', at + 1)) {
    let escapes = 0
    while (text.charCodeAt(at - 1 - escapes) === BACKSLASH) escapes++
    if (escapes % 2 === 0) return at
  }
  return text.length
}
