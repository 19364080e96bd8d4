import { BerthError } from "@berth/protocol/errors"

/** As OpenCode names a model. */
export interface Model {
  readonly providerID: string
  readonly modelID: string
}

/** From `provider/model`; a model's own name may hold further slashes. */
export const parseModel = (name: string): Model => {
  const [, providerID, modelID] = /^([^/]+)\/(.+)$/.exec(name) ?? []
  if (providerID === undefined || modelID === undefined)
    throw new BerthError("input.invalid", `"${name}" is not like provider/model`, {
      details: { path: "agent.model" },
    })
  return { providerID, modelID }
}
