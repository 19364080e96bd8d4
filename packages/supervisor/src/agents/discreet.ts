import { BerthError } from "@berth/protocol/errors"
import type { Agent } from "./agent.ts"
import type { AgentKeys } from "./keys.ts"
import { Redacting } from "./redacting.ts"

/** Wraps an agent so that its keys are loaded before it starts, and are removed from everything it reports. */
export const discreet = (agent: Agent, keys: AgentKeys): Agent => ({
  name: agent.name,
  startsEarly: agent.startsEarly,
  files: agent.files,
  start: async (signal, tell) => {
    await keys.load(signal)
    return redacted(keys, () => agent.start(signal, tell))
  },
  attach: (directory, signal) => redacted(keys, () => agent.attach(directory, signal)),
  trouble: () => keys.redaction.within(agent.trouble()),
  lastOutput: () => keys.redaction.of(agent.lastOutput()),
  prompt: async (start, say, signal) => {
    const redacting = new Redacting(keys.redaction, say)
    try {
      return await redacted(keys, () => agent.prompt(start, redacting.say, signal))
    } finally {
      await redacting.end()
    }
  },
  answer: (prompt, answer) => agent.answer(prompt, answer),
})

/** Runs a call, and removes the keys from what it returns or throws. */
const redacted = async <Result>(keys: AgentKeys, call: () => Promise<Result>): Promise<Result> => {
  try {
    return keys.redaction.within(await call())
  } catch (thrown) {
    if (!(thrown instanceof Error)) throw thrown
    if (!(thrown instanceof BerthError)) throw withoutKeys(keys, thrown)
    const { code, message, details, cause } = thrown
    const told = keys.redaction.within({ message, details })
    throw new BerthError(code, told.message, { details: told.details, cause })
  }
}

/** Removes the keys from the message of an error that is no BerthError: only the message is reported. */
const withoutKeys = (keys: AgentKeys, error: Error): Error => {
  const message = keys.redaction.of(error.message)
  return message === error.message ? error : new Error(message)
}
