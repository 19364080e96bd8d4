import { BerthError } from "@berth/protocol/errors"
import { objectIn, textIn } from "../read.ts"

/** What an agent answers that wants to be logged in. */
const AUTHENTICATION_REQUIRED = -32_000

/** How an agent is spoken of where it fails. */
export interface Told {
  readonly title: string
  /** The credential that it needs to be logged in, in words. */
  readonly login?: string
}

/** Why a call to an agent failed, in the agent's own words. */
export const failureOf = (
  {
    title,
    login = "see its own documentation for the key that it takes, and pass it with --key",
  }: Told,
  thrown: unknown,
  over: AbortSignal,
): BerthError => {
  if (thrown instanceof BerthError) return thrown
  if (over.aborted)
    return new BerthError("agent.unavailable", `${title} ended while the prompt ran`, {
      cause: thrown,
    })
  const { code, data, message } = objectIn(thrown)
  const details = textIn(data) ?? textIn(objectIn(data).details) ?? textIn(objectIn(data).message)
  const said = [thrown instanceof Error ? thrown.message : textIn(message), details]
  const words = said.filter((each) => each !== undefined && each !== "").join(": ")
  if (code === AUTHENTICATION_REQUIRED)
    return new BerthError(
      "agent.not_set_up",
      `${title} is not logged in, or its key is refused (${words}): ${login}`,
      {
        details: { code },
        cause: thrown,
      },
    )
  return new BerthError("agent.failed", words, {
    details: { ...(typeof code === "number" && { code }) },
    cause: thrown,
  })
}
