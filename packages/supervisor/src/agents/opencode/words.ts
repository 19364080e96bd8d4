import { objectIn, textIn } from "../read.ts"

/** The text of an error in OpenCode's format, `{ name, data: { message } }`. */
export const wordsOf = (error: unknown): string | undefined => {
  const { name, data, message } = objectIn(error)
  return textIn(objectIn(data).message) ?? textIn(message) ?? textIn(name)
}
