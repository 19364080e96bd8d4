import { BerthError } from "@berth/protocol/errors"
import type { Agent } from "./agent.ts"
import type { AgentKeys } from "./keys.ts"
import { Redacting } from "./redacting.ts"

/** An agent that gets its keys before it starts, and of which nothing is told that holds one. */
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

/** What it returns, or throws, without the keys. */
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

/** Of an error that is no one of ours, the message is what is told. */
const withoutKeys = (keys: AgentKeys, error: Error): Error => {
  const message = keys.redaction.of(error.message)
  return message === error.message ? error : new Error(message)
}
