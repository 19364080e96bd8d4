import { objectIn, textIn } from "../read.ts"

/** The words of an error as OpenCode writes them: `{ name, data: { message } }`. */
export const wordsOf = (error: unknown): string | undefined => {
  const { name, data, message } = objectIn(error)
  return textIn(objectIn(data).message) ?? textIn(message) ?? textIn(name)
}
