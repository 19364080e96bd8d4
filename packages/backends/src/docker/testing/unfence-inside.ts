import { readdir, readFile, readlink } from "node:fs/promises"
import { run } from "@berth/host/run"
import { GATEWAY_TABLE } from "../network/gateway.ts"

/**
 * Removes the rules that stand inside the containers of an engine. The engine is known by its network namespace: the
 * parent of each container's first process is in it, and the process itself is not.
 */
export const unfenceInside = async (enginePid: number): Promise<void> => {
  const engine = await namespaceOf(enginePid)
  const pids = (await readdir("/proc")).map(Number).filter((pid) => pid > 0)
  for (const pid of pids) {
    const [parent, own] = await Promise.all([namespaceOf(await parentOf(pid)), namespaceOf(pid)])
    if (parent !== engine || own === undefined || own === engine) continue
    const command = ["nft", "delete", "table", "inet", GATEWAY_TABLE]
    // Other children of the engine have no such table.
    await run(["nsenter", `--net=/proc/${pid}/ns/net`, ...command], {
      signal: AbortSignal.timeout(20_000),
    })
  }
}

const namespaceOf = (pid: number): Promise<string | undefined> =>
  readlink(`/proc/${pid}/ns/net`).catch(() => undefined)

/**
 * The parent's pid; zero for a process that has ended. The program's name before it in the file may hold anything but a
 * last bracket.
 */
const parentOf = async (pid: number): Promise<number> => {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "")
  return Number(/^.*\) \S (\d+)/s.exec(stat)?.[1] ?? 0)
}
