import { readdirSync, readFileSync } from "node:fs"
import type { SandboxId } from "@berth/protocol/ids"

/** The processes around the supervisor of a sandbox, as the host sees them. */
export interface Inside {
  readonly supervisor: number
  /** The first process of the sandbox, whose child the supervisor is. */
  readonly first: number
  /** The process outside that waits for the first one and keeps its log. */
  readonly monitor: number
}

export const findInside = (sandbox: SandboxId): Inside | undefined => {
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    const [program = "", ...args] = read(pid, "cmdline").split("\0")
    // Each supervisor sees its own shared directory, on every engine. The first process names the supervisor, too.
    if (!program.endsWith("/node") || !args.some((arg) => arg.includes("/supervisor/main")))
      continue
    if (!read(pid, "mountinfo").includes(`/shared/${sandbox}/`)) continue
    const first = parentOf(pid)
    return { supervisor: Number(pid), first, monitor: parentOf(String(first)) }
  }
  return undefined
}

const parentOf = (pid: string): number => Number(/\) \S (\d+)/.exec(read(pid, "stat"))?.[1])

/** Signals a process. Returns false if it had ended before. */
export const kill = (pid: number | undefined, signal: NodeJS.Signals): boolean => {
  if (pid === undefined) return false
  try {
    return process.kill(pid, signal)
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code !== "ESRCH") throw thrown
    return false
  }
}

const read = (pid: string, name: string): string => {
  try {
    return readFileSync(`/proc/${pid}/${name}`, "utf8")
  } catch {
    return ""
  }
}
