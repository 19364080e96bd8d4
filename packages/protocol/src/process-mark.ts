import type { PromptId } from "./ids.ts"

/*
 * The mark of a process, by which the supervisor finds what came from it, and the server whose work it is where the
 * supervisor does not answer. It loads no schemas, for the supervisor's sake.
 */

/**
 * The variable with the mark, in the environment of every process that the supervisor starts, and so of its
 * descendants.
 */
export const MARK_VARIABLE = "BERTH_PROCESS"

/** The starter of a process, if the processes that it leaves are somebody's work and would be lost with the sandbox. */
export type Origin = "prompt" | "agent" | "terminal"

/**
 * Makes the mark of a start, beginning with the origin if there is one, and ending with the prompt that the process is
 * for, if it is for one alone. It need not be secret: a process that forges one is only ended with that tree, or counted
 * as if that origin had started it.
 */
export const markOf = (start: string, origin?: Origin, prompt?: PromptId): string =>
  [origin, start, prompt].filter((part) => part !== undefined).join("-")

export const originOf = (mark: string | undefined): Origin | undefined =>
  /^(prompt|agent|terminal)-/.exec(mark ?? "")?.[1] as Origin | undefined

/** Matches the part of a mark that belongs to one start. A process may forge a mark, but not a long one. */
const START = "[0-9a-z-]{1,64}"

/** Matches the marks of the processes that one prompt has for itself. */
export const marksOfPrompt = (prompt: PromptId): string => `prompt-${START}-${prompt}`

/** Matches the marks that supervisors of older toolboxes give to the processes of prompts. */
export const MARKS_WITHOUT_PROMPT = "prompt-[0-9]{1,20}-[0-9a-z]{1,20}"

/** The time of the host's monotonic clock at which a mark was made; 0: the mark does not tell. */
export const startedAtNs = (mark: string): bigint => {
  const [, digits = ""] = /^[a-z]+-\d+-([0-9a-z]{1,20})(-|$)/.exec(mark) ?? []
  return [...digits].reduce((ns, digit) => ns * 36n + BigInt(Number.parseInt(digit, 36)), 0n)
}

/** Matches the marks of the agent's processes, which work for every prompt of the sandbox. */
export const MARKS_OF_AGENT = `agent-${START}`
