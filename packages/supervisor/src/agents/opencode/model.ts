import { BerthError } from "@berth/protocol/errors"

/** A model in OpenCode's terms. */
export interface Model {
  readonly providerID: string
  readonly modelID: string
}

/** Parses `provider/model`. A model's name may contain further slashes. */
export const parseModel = (name: string): Model => {
  const [, providerID, modelID] = /^([^/]+)\/(.+)$/.exec(name) ?? []
  if (providerID === undefined || modelID === undefined)
    throw new BerthError("input.invalid", `"${name}" is not like provider/model`, {
      details: { path: "agent.model" },
    })
  return { providerID, modelID }
}
