import { newId } from "@berth/protocol/ids"
import { MARKS_OF_AGENT, markOf } from "@berth/protocol/process-mark"
import { expect, it } from "vitest"
import { marksOf } from "./marks-of.ts"
import type { AssignedPrompt } from "./rows.ts"

const AGE_MS = 10_000

/** A prompt that began a while ago, but after the machine. */
const prompt = {
  id: newId.prompt(),
  agent: "shell",
  startedAt: new Date(Date.now() - AGE_MS).toISOString(),
} as Partial<AssignedPrompt> as AssignedPrompt

const rows = (hasOtherShell: boolean) => ({ hasOtherShell: async () => hasOtherShell })

/** The start in a mark, as a supervisor makes it. */
const startBefore = (ms: number): string =>
  `7-${(process.hrtime.bigint() - BigInt(ms) * 1_000_000n).toString(36)}`

const isMatched = async (mark: string, of = prompt, hasOtherShell = false): Promise<boolean> => {
  const { marks, isMeant = () => true } = await marksOf(rows(hasOtherShell), of)
  return new RegExp(`^(${marks})$`).test(mark) && isMeant(mark)
}

it("[R3.3] a prompt has the processes whose mark names it", async () => {
  expect(await isMatched(markOf(startBefore(0), "prompt", prompt.id))).toBe(true)
  expect(await isMatched(markOf(startBefore(0), "prompt", prompt.id), prompt, true)).toBe(true)
  expect(await isMatched(markOf(startBefore(0), "prompt", newId.prompt()))).toBe(false)
})

it("[R3.3] a prompt has the shell of an older toolbox, whose mark names no prompt, if it began since", async () => {
  expect(await isMatched(markOf(startBefore(AGE_MS / 2), "prompt"))).toBe(true)
  expect(await isMatched(markOf(startBefore(2 * AGE_MS), "prompt"))).toBe(false)
  for (const origin of ["agent", "terminal", undefined] as const)
    expect(await isMatched(markOf(startBefore(0), origin))).toBe(false)
})

it("[R3.3] a prompt has no process without its name beside another prompt for the shell, or before it began", async () => {
  const mark = markOf(startBefore(0), "prompt")
  expect(await isMatched(mark, prompt, true)).toBe(false)
  expect(await isMatched(mark, { ...prompt, startedAt: null })).toBe(false)
})

it("[R3.3] a prompt for an agent has all processes of the agent", async () => {
  expect((await marksOf(rows(false), { ...prompt, agent: "opencode" })).marks).toBe(MARKS_OF_AGENT)
})
