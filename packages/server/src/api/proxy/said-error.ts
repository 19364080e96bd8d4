import { BerthError, ERRORS, type ErrorCode } from "@berth/protocol/errors"
import { z } from "zod"

/** The most characters of an error's message; longer ones are cut. */
const MAX_MESSAGE_CHARS = 4_096

/** The error codes that a sandbox may use. All others are the server's own. */
const FAMILIES = /^(?:input|files|commands|terminals|ports|git|process|repo)\./
const OTHERS: readonly string[] = [
  ...["not_found", "route.unknown", "cancelled", "deadline.exceeded", "internal"],
]

const Said = z.object({
  code: z.string(),
  message: z.string(),
  details: z.record(z.string(), z.unknown()).default({}),
})

/** The error that a sandbox reports; undefined: a sandbox cannot have this error. */
export const saidError = (value: unknown): BerthError | undefined => {
  const said = Said.safeParse(value)
  if (!said.success || !isSandboxs(said.data.code)) return undefined
  const { code, message, details } = said.data
  return new BerthError(code, message.slice(0, MAX_MESSAGE_CHARS), { details })
}

const isSandboxs = (code: string): code is ErrorCode =>
  Object.hasOwn(ERRORS, code) && (FAMILIES.test(code) || OTHERS.includes(code))
