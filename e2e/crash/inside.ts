import { readdirSync, readFileSync } from "node:fs"
import type { SandboxId } from "@berth/protocol/ids"

/** The supervisor of a sandbox and its parent, the first process there, as the host sees them. */
export const findSupervisor = (
  sandbox: SandboxId,
): { readonly supervisor: number; readonly first: number } | undefined => {
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    // Each sees the directory of its own link, whatever engine made it.
    if (!read(pid, "cmdline").includes("/supervisor/main")) continue
    if (!read(pid, "mountinfo").includes(`/links/${sandbox}/`)) continue
    const parent = Number(/\) \S (\d+)/.exec(read(pid, "stat"))?.[1])
    return { supervisor: Number(pid), first: parent }
  }
  return undefined
}

/** It may have ended before. */
export const kill = (pid: number | undefined, signal: NodeJS.Signals): void => {
  try {
    if (pid !== undefined) process.kill(pid, signal)
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code !== "ESRCH") throw thrown
  }
}

const read = (pid: string, name: string): string => {
  try {
    return readFileSync(`/proc/${pid}/${name}`, "utf8")
  } catch {
    return ""
  }
}
