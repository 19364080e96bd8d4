import { readdirSync, readFileSync } from "node:fs"
import { setTimeout as delay } from "node:timers/promises"
import type { SandboxId } from "@berth/protocol/ids"
import { identifyProcess, signalProcess } from "./process.ts"

/** Between two looks at what is still being made. */
const LOOK_AGAIN_MS = 2

/**
 * Kills what still makes a sandbox when its creation was cut short: conmon, and the programs that it has
 * started on the way to the runtime. They are known by their arguments, since nobody may have noted their pids;
 * each may have started the next while it was looked for, so it is looked again until none is left.
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

/** Only what makes sandboxes names both the sandbox and the directory of the runtime's own state. */
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
