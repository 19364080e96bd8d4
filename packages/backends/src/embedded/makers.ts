import { readdirSync, readFileSync } from "node:fs"
import { setTimeout as delay } from "node:timers/promises"
import type { SandboxId } from "@berth/protocol/ids"
import { identifyProcess, signalProcess } from "./process.ts"

/** The pause between two searches for processes that still make the sandbox. */
const LOOK_AGAIN_MS = 2

/**
 * Kills the processes that still make a sandbox when its creation was interrupted: conmon, and the programs that it has
 * started on the way to the runtime. They are known by their arguments, since nobody may have noted their pids. Each
 * may have started the next during the search, so the search is repeated until none is left.
 */
export const killMakers = async (
  sandbox: SandboxId,
  runtimeRoot: string,
  signal: AbortSignal,
): Promise<void> => {
  for (;;) {
    const makers = findMakers(sandbox, runtimeRoot)
    if (makers.length === 0) return
    for (const maker of makers) signalProcess(maker, "SIGKILL")
    signal.throwIfAborted()
    await delay(LOOK_AGAIN_MS)
  }
}

/** Only processes that make sandboxes name both the sandbox and the directory of the runtime's own state. */
const findMakers = (sandbox: SandboxId, runtimeRoot: string) =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      const args = argumentsOf(pid)
      return args.includes(sandbox) && args.some((argument) => argument.includes(runtimeRoot))
    })
    .map(identifyProcess)
    .filter((identity) => identity !== undefined)

const argumentsOf = (pid: number): string[] => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0")
  } catch {
    return []
  }
}
