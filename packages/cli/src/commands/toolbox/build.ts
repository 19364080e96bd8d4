import { BerthError } from "@berth/protocol/errors"
import type { ToolboxBuild } from "@berth/protocol/toolbox"
import type { HostToolboxes } from "@berth/server/main"
import { type DefineCommand, toJson } from "../../command.ts"
import { addConfigFlags, hostFlags } from "../../config-flags.ts"
import { loadHost } from "../../host.ts"
import { saySize } from "../../say-size.ts"
import { cancelledBySignal } from "../../signals.ts"
import { printable } from "../../terminal.ts"
import { showProgress } from "./progress.ts"
import { sayEntries, sayProblems } from "./say.ts"

/** The agents that have a toolbox of their own. */
const AGENTS = ["claude", "codex"] as const

const HELP = `
A toolbox is complete or absent: an interrupted build leaves nothing that could be used, and the next build begins
anew. An existing toolbox is only looked at. Progress is written to standard error.

Claude and Codex have a toolbox each, which is made when they are first used. npm then fetches their packages, in
the versions and with the hashes that this version of Berth names.

Examples:
  berth toolbox build
  berth toolbox build --agent codex
  berth toolbox build --json`

export const defineBuild: DefineCommand = async (command, { out, err, isScreen }) => {
  command
    .summary("make the toolbox of this version, unless it is there")
    .description("Makes the toolbox of this version of Berth, unless it is there.")
    .option("--agent <name>", `with this agent in the place of opencode: ${AGENTS.join(" or ")}`)
    .option("--json", "write JSON, and no progress")
    .addHelpText("after", HELP)
  await addConfigFlags(command, "dataDir")
  command.action(async ({ agent: named, ...options }) => {
    const agent = AGENTS.find((each) => each === named)
    if (named !== undefined && agent === undefined)
      throw new BerthError("input.usage", `--agent is ${AGENTS.join(" or ")}, not ${named}`)
    const { toolboxes } = await loadHost()
    const host = await toolboxes(hostFlags(options))
    const progress = options.json ? undefined : showProgress(err, { screen: isScreen() })
    const start = performance.now()
    const built = await cancelledBySignal((signal) =>
      host.build({ signal, ...(progress && { onProgress: progress.show }) }, agent),
    ).finally(() => progress?.end())
    const result = summarize(built, performance.now() - start)
    out(options.json ? toJson(result) : printable(render(result)))
  })
}

type BuiltToolbox = Awaited<ReturnType<HostToolboxes["build"]>>

const summarize = ({ manifest, ...built }: BuiltToolbox, durationMs: number): ToolboxBuild => ({
  id: built.id,
  directory: built.directory,
  outcome: built.outcome,
  problems: [...built.problems],
  entries: manifest.entries,
  files: manifest.files.length,
  bytes: manifest.files.reduce((sum, file) => sum + (file.kind === "file" ? file.bytes : 0), 0),
  durationMs: Math.round(durationMs),
})

const render = (result: ToolboxBuild): string =>
  `${sayOutcome(result)}${sayEntries(result.entries)}  in ${result.directory}\n`

const sayOutcome = (result: ToolboxBuild): string => {
  const { id, outcome, problems, durationMs } = result
  const took = `${saySize(result)}, ${(durationMs / 1000).toFixed(1)} s`
  switch (outcome) {
    case "built":
      return `Built ${id}: ${took}\n`
    case "present":
      return `${id} is there already: ${saySize(result)}\n`
    case "rebuilt":
      return `Built ${id} anew: ${took}\nThe one that was there had been changed:\n${sayProblems(problems)}`
  }
}
