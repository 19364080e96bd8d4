import { spawn } from "node:child_process"
import { once } from "node:events"
import { createInterface } from "node:readline"

export const QUERY_EVERY_MS = 10

/** The time of one answer. */
export interface HealthSample {
  readonly ms: number
  /**
   * The time that the server computed meanwhile. Unlike elapsed time, it does not grow while others have cores and
   * disk.
   */
  readonly computedMs: number
}

/** Queries the health of a server from a separate process, so that this one does not hold it up. */
export const openHealthQueries = (url: string, serverPid: number) => {
  const program = new URL("health-queries.ts", import.meta.url).pathname
  const args = ["--conditions=source", program, `${url}/v1/health`, String(serverPid)]
  const child = spawn(process.execPath, args, { stdio: ["pipe", "pipe", "inherit"] })
  const lines = createInterface({ input: child.stdout })
  return {
    query: async (forMs: number): Promise<readonly HealthSample[]> => {
      child.stdin.write(`${forMs}\n`)
      const [line] = await Promise.race([once(lines, "line"), once(child, "exit").then(() => [])])
      if (line === undefined)
        throw new Error("the program that queries the server's health has ended")
      return JSON.parse(line)
    },
    close: async () => {
      const ended = once(child, "exit")
      child.kill("SIGKILL")
      await ended
    },
  }
}
