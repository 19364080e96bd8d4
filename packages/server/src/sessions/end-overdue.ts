import type { Logger } from "../logging/logger.ts"
import type { EndProcesses } from "../sandboxes/requests/end-processes.ts"
import type { FailPoint } from "../sandboxes/state/fail-point.ts"
import type { Hindrance } from "./hindrance.ts"
import { marksOf } from "./marks-of.ts"
import type { AssignedPrompt } from "./rows.ts"
import type { Stored } from "./stored.ts"

export interface EndOverdueParts {
  readonly stored: Pick<Stored, "rows" | "changes">
  /** Kills processes of a sandbox from outside. Returns how many; undefined: it cannot reach them. */
  readonly endProcesses: (which: EndProcesses) => Promise<number | undefined>
  readonly log: Logger
  readonly at: FailPoint
}

/** How ending a prompt's processes went: in words, and whether another attempt may end more of them. */
export interface Killed {
  readonly words: string
  readonly isToRepeat: boolean
}

/**
 * Ends a prompt whose sandbox did not take its stop, with what it runs. A crash may cut this short, and it is done
 * again. The prompt stays open until its sandbox confirms the end. Returns undefined if the prompt is over.
 */
export const openEndOverdue = ({ stored, log, at, ...parts }: EndOverdueParts) => {
  const { rows, changes } = stored

  /** Kills what the prompt runs. */
  const endProcesses = async (prompt: AssignedPrompt, signal: AbortSignal): Promise<Killed> => {
    const { id, sandbox } = prompt
    try {
      const marks = await marksOf(rows, prompt)
      return {
        words: wordsOf(await parts.endProcesses({ sandbox, ...marks, signal })),
        isToRepeat: false,
      }
    } catch (err) {
      const fields = { op: "prompt.endProcesses", prompt: id, sandbox, err }
      if (!signal.aborted) log.warn(fields, "the processes of a stopped prompt cannot be ended")
      return { words: wordsOf(undefined), isToRepeat: true }
    }
  }

  return async (
    prompt: AssignedPrompt,
    {
      withinMs,
      hindrance,
    }: { readonly withinMs: number; readonly hindrance: Hindrance | undefined },
    signal: AbortSignal,
  ): Promise<Killed | undefined> => {
    const others = await changes.noteOverdue(prompt)
    await at("stop.overdue")
    if (others === undefined) return undefined
    // The agent is one process for all its prompts. Ended from outside, it would fail those of others.
    const isShared = prompt.agent !== "shell" && others.length > 0
    const killed: Killed = isShared
      ? {
          words: `its agent works for ${others.join(", ")} as well, and goes on until the sandbox answers`,
          isToRepeat: false,
        }
      : await endProcesses(prompt, signal)
    // The prompt is over meanwhile, or the next server resumes it.
    if (signal.aborted) return undefined
    await at("stop.enforced")
    const why = hindrance === undefined ? "" : ` (${hindrance.message})`
    const failure = `${prompt.sandbox} did not take the stop within ${withinMs / 1000} s${why}`
    await changes.endOverdue(prompt.id, `${failure}: ${killed.words}`)
    await at("stop.ended")
    return killed
  }
}

const wordsOf = (ended: number | undefined): string => {
  if (ended === undefined) return "whatever it runs there goes on until the sandbox answers"
  return ended === 0 ? "nothing of it was found running" : "its processes were ended from outside"
}
