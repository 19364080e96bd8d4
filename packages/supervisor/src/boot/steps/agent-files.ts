import { COPY_LIMIT_MS } from "../../agent-files/copy.ts"
import { type Placement, placeAgentFiles } from "../../agent-files/place.ts"
import type { BootContext } from "../context.ts"
import type { Step, StepReport, Tell } from "../step.ts"

/** Time limit: the copy's own, and some to look at what is there and to read what is copied. */
export const AGENT_FILES_LIMIT_MS = COPY_LIMIT_MS + 60_000

/** Places the agent's files from the toolbox in its own directories, outside of every repo. */
export const agentFiles = (needs: readonly string[]): Step<BootContext> => ({
  name: "agent-files",
  needs,
  required: true,
  timeoutMs: AGENT_FILES_LIMIT_MS,
  run: async ({ agent, places, clock, pipes, user, environment }, signal, tell) => {
    if (agent.files.length === 0) return { skipped: `${agent.name} needs none` }
    const beganAtMs = clock.nowMs()
    const path = environment.PATH ?? "/usr/bin:/bin"
    const placement = await placeAgentFiles(
      agent.files,
      ...([places, { clock, pipes, user, path }, signal] as const),
    )
    warn(placement, tell)
    return report(placement, clock.nowMs() - beganAtMs)
  },
})

const warn = ({ kept, linkingFailed }: Placement, tell: Tell): void => {
  if (linkingFailed !== undefined)
    tell.warn(`the agent's files were copied, since links could not be made: ${linkingFailed}`)
  for (const { to, reason } of kept)
    tell.warn(`the agent's ${to} was not put in place: ${reason}, and was left as it is`)
}

const report = (placement: Placement, tookMs: number): StepReport => {
  const { linked, copied, present, replaced, cleaned } = placement
  const kept = placement.kept.map(({ to }) => to)
  const ms = Math.round(tookMs * 10) / 10
  const said = Object.entries({ linked, copied, present, kept })
    .filter(([, names]) => names.length > 0)
    .map(([what, names]) => `${names.length} ${what}`)
  return {
    did: `${said.join(", ")} in ${ms} ms`,
    facts: {
      linked: [...linked],
      copied: [...copied],
      present: [...present],
      kept,
      replaced: [...replaced],
      cleaned: [...cleaned],
      tookMs: ms,
    },
  }
}
