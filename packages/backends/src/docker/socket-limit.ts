import { readFile, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import { z } from "zod"
import { socketMemoryBytes } from "../socket-memory.ts"
import { type Engine, parseAnswer } from "./engine/engine.ts"

const Container = z.object({
  State: z.object({ Running: z.boolean(), Pid: z.int() }),
  HostConfig: z.object({ Memory: z.int() }),
})

/** The memory controller's directory on hosts with cgroup v1. */
const MEMORY_CGROUPS = "/sys/fs/cgroup/memory"

/**
 * Bounds the packets that the sockets of a container hold, on a host with cgroup v1, which does not count them as
 * memory. Runtimes no longer do this for the engine. The bound holds for sockets that are made from now on.
 */
export const boundSockets = async (
  engine: Engine,
  engineId: string,
  signal: AbortSignal,
): Promise<void> => {
  const request = { method: "GET", path: `/containers/${engineId}/json` } as const
  const answer = await engine.ask(request, [200, 404], signal)
  if (answer.status === 404) return
  const { State, HostConfig } = parseAnswer(request, answer, Container)
  const cgroup = await memoryCgroupOf(State.Pid)
  // The process may have ended, and its pid be another's.
  if (!State.Running || !cgroup?.includes(engineId)) return
  try {
    const limit = join(MEMORY_CGROUPS, cgroup, "memory.kmem.tcp.limit_in_bytes")
    await writeFile(limit, `${socketMemoryBytes(HostConfig.Memory)}`)
  } catch (cause) {
    // The container has ended, or this server does not see the engine's cgroups.
    if (["ENOENT", "ENODEV"].includes((cause as NodeJS.ErrnoException).code ?? "")) return
    throw new BerthError("backend.engine_failed", "the memory of sockets cannot be bounded", {
      details: { container: engineId, systemSaid: String(cause) },
      cause,
    })
  }
}

const memoryCgroupOf = async (pid: number): Promise<string | undefined> => {
  const cgroups = await readFile(`/proc/${pid}/cgroup`, "utf8").catch(() => "")
  return /^\d+:(?:\S+,)?memory(?:,[^:\s]+)?:(\S+)$/m.exec(cgroups)?.[1]
}
