import { BerthError, ERRORS, type ErrorCode, type ErrorDetails } from "@berth/protocol/errors"

/** The error that a server sent, as it was thrown there. */
export const errorOfReply = (url: string, status: number, text: string): BerthError => {
  const sent = parse(text)
  if (sent === undefined) return notBerth(url, status)
  return errorOf(sent, { url, status })
}

/** The error with this code and message. */
export const errorOf = (
  { code, message, details }: { code: string; message: string; details: ErrorDetails },
  where: ErrorDetails = {},
): BerthError => {
  if (isKnown(code)) return new BerthError(code, message, { details })
  // A newer server may use codes that this client does not know: its message is passed on.
  return new BerthError("server.reply_invalid", `the server says: ${message}`, {
    details: { ...details, ...where, code },
  })
}

/** The error where another program answers, or another version of the protocol is spoken. */
export const notBerth = (url: string, status: number): BerthError =>
  new BerthError("server.reply_invalid", `what answers at ${url} does not speak Berth's protocol`, {
    details: { url, status },
  })

const isKnown = (code: string): code is ErrorCode => Object.hasOwn(ERRORS, code)

const parse = (text: string) => {
  try {
    const { code, message, details } = JSON.parse(text)
    if (typeof code !== "string" || typeof message !== "string") return undefined
    const known = typeof details === "object" && details !== null
    return { code, message, details: known ? (details as ErrorDetails) : {} }
  } catch {
    return undefined
  }
}
