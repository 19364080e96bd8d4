import { createInterface } from "node:readline"
import { openToolboxes } from "../store.ts"
import { makeInputs } from "./fake-inputs.ts"
import { outcomeOf, say } from "./report.ts"

/**
 * A program that builds, or with `collect` removes everything, and prints each step. At the step of `dieAt` it dies; at
 * that of `waitAt` it waits for a line of its input.
 */
const [, , operation, root = "", inputsDirectory = "", at = "{}"] = process.argv
const { dieAt, waitAt } = JSON.parse(at) as { dieAt?: string; waitAt?: string }
const { signal } = new AbortController()
const told = createInterface({ input: process.stdin })[Symbol.asyncIterator]()

const toolboxes = openToolboxes({
  root,
  arch: "x64",
  at: async (step) => {
    say({ step })
    if (step === dieAt) process.kill(process.pid, "SIGKILL")
    if (step === waitAt) await told.next()
  },
})

const work = async () => {
  if (operation === "collect") return await toolboxes.collect(new Set())
  const { id, outcome } = await toolboxes.build(makeInputs(inputsDirectory), { signal })
  return { id, outcome }
}
say({ done: await outcomeOf(work()) })
process.stdin.destroy()
