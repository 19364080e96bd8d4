import {
  MARKS_OF_AGENT,
  MARKS_WITHOUT_PROMPT,
  marksOfPrompt,
  startedAtNs,
} from "@berth/protocol/process-mark"
import type { EndProcesses } from "../sandboxes/requests/end-processes.ts"
import type { AssignedPrompt, Rows } from "./rows.ts"

const NS_PER_MS = 1_000_000n

/**
 * The marks of what a prompt runs. A supervisor of an older toolbox names no prompt in the mark of a shell: where the
 * sandbox had no other prompt for the shell since this one started, what began since then is this one's.
 */
export const marksOf = async (
  rows: Pick<Rows, "hasOtherShell">,
  prompt: AssignedPrompt,
): Promise<Pick<EndProcesses, "marks" | "isMeant">> => {
  const { id, agent, startedAt } = prompt
  if (agent !== "shell") return { marks: MARKS_OF_AGENT }
  const own = marksOfPrompt(id)
  if (startedAt === null || (await rows.hasOtherShell(prompt))) return { marks: own }
  const sinceMs = Date.now() - Date.parse(startedAt)
  const startedNs = process.hrtime.bigint() - BigInt(sinceMs) * NS_PER_MS
  const isMeant = (mark: string) => mark.endsWith(`-${id}`) || startedAtNs(mark) >= startedNs
  return { marks: `${own}|${MARKS_WITHOUT_PROMPT}`, isMeant }
}
