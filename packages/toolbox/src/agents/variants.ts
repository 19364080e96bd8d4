import type { BuildCall } from "../build.ts"
import { currentInputs } from "../inputs/current.ts"
import type { ToolboxInput } from "../inputs/input.ts"
import { OPTIONAL_AGENTS, type OptionalAgent } from "../inputs/optional-agents.ts"
import type { InputSource } from "../inputs/source.ts"
import { findAgent, type InstallCall, type InstallPlace, installAgent } from "./install.ts"
import { readPin } from "./pin.ts"

export interface VariantsParts {
  readonly arch: InputSource["arch"]
  readonly place: InstallPlace
  readonly environment: InstallCall["environment"]
}

/** The toolboxes of this version of Berth: one with OpenCode, and one with each of the other agents in its place. */
export interface Variants {
  /** The inputs of the toolbox with this agent. Installs the agent if it is missing. */
  inputs(agent: OptionalAgent | undefined, call: BuildCall): Promise<ToolboxInput[]>
  /** The inputs of each toolbox whose agent is installed. */
  installed(signal: AbortSignal): Promise<ToolboxInput[][]>
}

export const openVariants = ({ arch, place, environment }: VariantsParts): Variants => {
  const { from } = place
  const source = (signal: AbortSignal) => ({ arch, from, path: environment.PATH ?? "", signal })
  return {
    inputs: async (agent, { signal, onProgress = () => {} }) => {
      if (agent === undefined) return await currentInputs(source(signal))
      const pin = await readPin(agent, from)
      const found =
        (await findAgent(pin, place)) ??
        (await installAgent(pin, place, { signal, onProgress, environment }))
      return await currentInputs(source(signal), { agent, from: found })
    },
    installed: async (signal) => {
      const all = [await currentInputs(source(signal))]
      for (const agent of OPTIONAL_AGENTS) {
        const found = await findAgent(await readPin(agent, from), place)
        if (found !== undefined)
          all.push(await currentInputs(source(signal), { agent, from: found }))
      }
      return all
    },
  }
}
