import { BerthError } from "@berth/protocol/errors"
import { listIn, objectIn } from "../read.ts"
import type { Client } from "./client.ts"
import type { Model } from "./model.ts"

/** Limit of the models that an error message lists as alternatives. */
const MAX_NAMED = 5

interface Asking {
  readonly client: Client
  readonly where: string
  readonly signal: AbortSignal
}

/**
 * Throws if OpenCode cannot use the model: it lists the providers that it has a key for. If the list cannot be read,
 * the prompt itself will show.
 */
export const requireModel = async (model: Model, asking: Asking): Promise<void> => {
  const told = await read("/config/providers", asking)
  if (told !== undefined) requireListed(model, told)
}

/**
 * Throws if nobody has chosen a model, by a configuration or by a key: OpenCode would take one of its vendor's that is
 * free of charge, and send it the repo.
 */
export const requireChosen = async (asking: Asking): Promise<void> => {
  const { model, agent } = objectIn(await read("/config", asking))
  const ofAgents = Object.values(objectIn(agent)).map((each) => objectIn(each).model)
  if ([model, ...ofAgents].some((name) => name !== undefined)) return
  const providers = listIn(objectIn(await read("/config/providers", asking)).providers)
  if (providers.length === 0 || !providers.every(isFreeOfCharge)) return
  throw new BerthError(
    "agent.not_set_up",
    "OpenCode has no model: pass --model PROVIDER/MODEL, and the key of its provider with --key NAME",
  )
}

/** Whether a provider is that of OpenCode's vendor as it is for whoever has no key. */
const isFreeOfCharge = (provider: unknown): boolean => {
  const { id, options } = objectIn(provider)
  return id === "opencode" && objectIn(options).apiKey === "public"
}

const read = async (path: string, { client, where, signal }: Asking): Promise<unknown> => {
  const told = await client.get(`${path}${where}`, { signal }).catch(() => undefined)
  signal.throwIfAborted()
  return told
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
