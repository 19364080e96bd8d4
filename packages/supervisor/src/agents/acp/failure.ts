import { BerthError } from "@berth/protocol/errors"
import { objectIn, textIn } from "../read.ts"

/** The JSON-RPC error code of an agent that is not logged in. */
const AUTHENTICATION_REQUIRED = -32_000

/** The names by which error messages speak of an agent. */
export interface Told {
  readonly title: string
  /** Describes the credential that the agent needs to be logged in. */
  readonly login?: string
}

/** The error for a failed call to an agent, in the agent's own words. */
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
