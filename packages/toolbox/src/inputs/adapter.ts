import { dirname, join } from "node:path"
import type { InputPart, ToolboxInput } from "./input.ts"
import { ADAPTERS, type OptionalAgent } from "./optional-agents.ts"
import { needPackage, packageTree } from "./packages.ts"
import type { InputSource } from "./source.ts"

export interface AdapterPackages {
  readonly agent: OptionalAgent
  /** The package whose version is the agent's own. */
  readonly program: string
  /** The agent's program for this processor, by its path in `node_modules`. */
  readonly main: (arch: InputSource["arch"]) => string
}

/** An agent and the adapter that speaks for it, as two entries, so that both versions are told. */
export const adapterInputs =
  ({ agent, program, main }: AdapterPackages) =>
  async ({ arch, from }: Pick<InputSource, "arch" | "from">): Promise<ToolboxInput[]> => {
    const to = `agents/${agent}/node_modules`
    const adapter = await needPackage(agent, ADAPTERS[agent], from)
    const { version } = await needPackage(agent, program, adapter.directory)
    const parts = await packageTree(agent, ADAPTERS[agent], { from, to })
    const isProgram = ({ to: place }: InputPart) => place.startsWith(`${to}/${dirname(program)}/`)
    return [
      {
        name: agent,
        version,
        main: join(to, main(arch)),
        parts: parts.filter(isProgram),
      },
      {
        name: `${agent}-acp`,
        version: adapter.version,
        main: join(to, ADAPTERS[agent], "dist/index.js"),
        parts: parts.filter((part) => !isProgram(part)),
      },
    ]
  }
