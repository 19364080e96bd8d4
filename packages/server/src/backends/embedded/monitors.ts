import { readdir, readFile } from "node:fs/promises"
import type { SandboxId } from "@berth/protocol/ids"
import { identifyProcess, type ProcessIdentity } from "./process.ts"

/** The conmon processes that were started for a sandbox, found by their arguments. */
export const findMonitors = async (sandbox: SandboxId): Promise<ProcessIdentity[]> => {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name)).map(Number)
  const found = await Promise.all(
    pids.map(async (pid) => ((await isMonitor(pid, sandbox)) ? identifyProcess(pid) : undefined)),
  )
  return found.filter((identity) => identity !== undefined)
}

const isMonitor = async (pid: number, sandbox: SandboxId): Promise<boolean> => {
  try {
    const args = (await readFile(`/proc/${pid}/cmdline`, "utf8")).split("\0")
    return (args[0]?.endsWith("conmon") ?? false) && args[args.indexOf("--cid") + 1] === sandbox
  } catch {
    return false
  }
}
