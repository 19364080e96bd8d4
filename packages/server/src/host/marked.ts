import { BerthError } from "@berth/protocol/errors"
import { MARK_VARIABLE } from "@berth/protocol/process-mark"
import { abortable } from "./abortable.ts"
import { run } from "./run.ts"

/**
 * Finds the processes whose mark, in their environment, has this form. The environment lies in a process's own memory,
 * and the process can make its reader wait: so another program reads it, and nobody waits for that after the signal.
 */
export const findMarked = async (
  pids: readonly number[],
  marks: string,
  signal: AbortSignal,
): Promise<ReadonlySet<number>> => {
  if (pids.length === 0) return new Set()
  const pattern = `^${MARK_VARIABLE}=(${marks})$`
  const paths = pids.map((pid) => `/proc/${pid}/environ`)
  // -s: a process that has ended meanwhile is no failure.
  const reading = run(["grep", "-lszE", "-e", pattern, "--", ...paths], { signal })
  const { stdout, stderr } = await abortable(reading, signal)
  if (stderr !== "")
    throw new BerthError("internal", `grep cannot read the marks of processes: ${stderr.trim()}`)
  return new Set([...stdout.matchAll(/^\/proc\/(\d+)\//gm)].map(([, pid]) => Number(pid)))
}
