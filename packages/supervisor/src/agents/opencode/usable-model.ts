import { BerthError } from "@berth/protocol/errors"
import { listIn, objectIn } from "../read.ts"
import type { Client } from "./client.ts"
import type { Model } from "./model.ts"

/** Limit of the models that an error message lists as alternatives. */
const MAX_NAMED = 5

/**
 * Throws if OpenCode cannot use the model: it lists the providers that it has a key for. If the list cannot be read,
 * the prompt itself will show.
 */
export const requireModel = async (
  model: Model,
  { client, where, signal }: { client: Client; where: string; signal: AbortSignal },
): Promise<void> => {
  const told = await client.get(`/config/providers${where}`, { signal }).catch(() => undefined)
  signal.throwIfAborted()
  if (told !== undefined) requireListed(model, told)
}

const requireListed = ({ providerID, modelID }: Model, told: unknown): void => {
  const providers = listIn(objectIn(told).providers).map(objectIn)
  const provider = providers.find(({ id }) => id === providerID)
  const models = Object.keys(objectIn(provider?.models))
  if (models.includes(modelID)) return
  const details = { provider: providerID, model: modelID }
  if (provider === undefined)
    throw new BerthError(
      "agent.not_set_up",
      `OpenCode cannot use the model ${providerID}/${modelID}: it has no key for ${providerID}, or knows no such provider; the key is passed with --key, such as --key ${keyOf(providerID)}`,
      { details },
    )
  throw new BerthError(
    "agent.not_set_up",
    `OpenCode cannot use the model ${providerID}/${modelID}: ${providerID} has no such model; it has ${someOf(models)}`,
    { details },
  )
}

/** The variable name that most providers use for their key. */
const keyOf = (provider: string): string =>
  `${provider.toUpperCase().replaceAll(/[^A-Z0-9]+/g, "_")}_API_KEY`

const someOf = (models: readonly string[]): string => {
  const more = models.length - MAX_NAMED
  return `${models.slice(0, MAX_NAMED).join(", ")}${more > 0 ? ` and ${more} more` : ""}`
}

/** Error texts of client libraries that got no connection. They say neither to what nor what to do about it. */
const NO_CONNECTION = /unable to connect|cannot connect|typo in the url|ECONNREFUSED|ENOTFOUND/i

/** Says what failed if OpenCode's own error text does not. Without a given model, OpenCode chooses one itself. */
export const explain = (words: string, model: Model | undefined): string => {
  if (!NO_CONNECTION.test(words)) return words
  if (model === undefined)
    return `OpenCode cannot reach its model (${words}). No model was named: pass --model PROVIDER/MODEL, and the key of its provider with --key NAME`
  const { providerID, modelID } = model
  return `OpenCode cannot reach the model ${providerID}/${modelID} (${words}): the sandbox needs a network that leads to its provider`
}
