import { BerthError } from "@berth/protocol/errors"
import { objectIn, textIn } from "../read.ts"

/** What an agent answers that wants to be logged in. */
const AUTHENTICATION_REQUIRED = -32_000

/** Why a call to an agent failed, in the agent's own words. */
export const failureOf = (title: string, thrown: unknown, over: AbortSignal): BerthError => {
  if (thrown instanceof BerthError) return thrown
  if (over.aborted)
    return new BerthError("agent.unavailable", `${title} ended while the prompt ran`, {
      cause: thrown,
    })
  const { code, data, message } = objectIn(thrown)
  const details = textIn(data) ?? textIn(objectIn(data).details) ?? textIn(objectIn(data).message)
  const said = [thrown instanceof Error ? thrown.message : textIn(message), details]
  const words = said.filter((each) => each !== undefined && each !== "").join(": ")
  const wants = code === AUTHENTICATION_REQUIRED ? `${title} is not logged in: ` : ""
  return new BerthError("agent.failed", `${wants}${words}`, {
    details: { ...(typeof code === "number" && { code }) },
    cause: thrown,
  })
}
