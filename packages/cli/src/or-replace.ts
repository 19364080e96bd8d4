import { createInterface } from "node:readline/promises"
import { BerthError } from "@berth/protocol/errors"

const REPLACEABLE: ReadonlySet<string> = new Set(["workspace.other_repo", "workspace.files_left"])

/**
 * Does the work. If the server refuses because the workspace is for another repo, or because files of that name are
 * left, and --replace was given, it is done in their place: at a terminal, only if the person agrees.
 */
export const orReplace = async <Result>(
  isAllowed: boolean,
  work: (replace: boolean) => Promise<Result>,
  signal?: AbortSignal,
): Promise<Result> => {
  try {
    return await work(false)
  } catch (thrown) {
    if (!isAllowed || !(thrown instanceof BerthError)) throw thrown
    if (!REPLACEABLE.has(thrown.code) || !(await agrees(thrown.message, signal))) throw thrown
  }
  return await work(true)
}

const agrees = async (refusal: string, signal?: AbortSignal): Promise<boolean> => {
  if (!process.stdin.isTTY || !process.stderr.isTTY) return true
  // Not as a terminal, which would take ctrl-c for itself.
  const lines = createInterface({ input: process.stdin, output: process.stderr, terminal: false })
  try {
    const question = `${refusal}\nIts files go, and its sessions are closed: replace it? [y/N] `
    const answer = await (signal === undefined
      ? lines.question(question)
      : lines.question(question, { signal }))
    return /^y(es)?$/i.test(answer.trim())
  } finally {
    lines.close()
  }
}
