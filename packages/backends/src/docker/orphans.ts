import { readdirSync, readFileSync } from "node:fs"
import { basename } from "node:path"
import { setTimeout as pause } from "node:timers/promises"
import { BerthError } from "@berth/protocol/errors"

/** The kernel ends a killed process at once, unless it waits for a disk. */
const END_MS = 5_000
const POLL_MS = 10

/**
 * Ends the processes of a container that its engine does not know to run. An engine that is killed in the middle of a start
 * leaves them, takes the container for one that was never started, and removes it without them; they would keep the
 * workspace's files mounted.
 */
export const endOrphans = async (engineId: string, signal: AbortSignal): Promise<void> => {
  const untilMs = performance.now() + END_MS
  for (;;) {
    const pids = orphansOf(engineId)
    if (pids.length === 0) return
    signal.throwIfAborted()
    if (performance.now() > untilMs) throw notEnded(engineId, pids)
    for (const pid of pids) kill(pid)
    await pause(POLL_MS)
  }
}

const orphansOf = (engineId: string): number[] =>
  readdirSync("/proc").flatMap((name) =>
    /^\d+$/.test(name) && (isInside(name, engineId) || isShim(name, engineId))
      ? [Number(name)]
      : [],
  )

/**
 * Whether a process is in the container: an engine names the container's cgroup after its id, whatever else the path
 * has.
 */
const isInside = (pid: string, engineId: string): boolean => read(pid, "cgroup").includes(engineId)

/**
 * Whether a process is the shim outside that waits for the container's first one: `containerd-shim-runc-v2 -namespace
 * moby -id ID …`.
 */
const isShim = (pid: string, engineId: string): boolean => {
  const [program = "", ...args] = read(pid, "cmdline").split("\0")
  return (
    basename(program).startsWith("containerd-shim") && args[args.indexOf("-id") + 1] === engineId
  )
}

const read = (pid: string, file: string): string => {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "utf8")
  } catch {
    return "" // It has ended.
  }
}

const kill = (pid: number): void => {
  try {
    process.kill(pid, "SIGKILL")
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code !== "ESRCH") throw thrown
  }
}

const notEnded = (engineId: string, pids: readonly number[]): BerthError =>
  new BerthError(
    "backend.processes_left",
    `the engine lost sight of processes of a sandbox, which do not end: ${pids.join(", ")}`,
    { details: { container: engineId, pids } },
  )
