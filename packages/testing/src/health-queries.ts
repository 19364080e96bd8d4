/**
 * Queries a server for its health at fixed times, whether it has answered or not: `node health-queries.ts URL PID`. Each
 * line on its input is for how many milliseconds to query; the answer is one line of JSON with the samples.
 */
import { readFileSync } from "node:fs"
import { Agent, get } from "node:http"
import { constants, setPriority } from "node:os"
import { createInterface } from "node:readline"
import { setTimeout as pause } from "node:timers/promises"
import { type HealthSample, QUERY_EVERY_MS } from "./health-sample.ts"

const [, , url = "", pid = ""] = process.argv

/** Connections are reused once they are answered; until then, each query opens a new one. */
const agent = new Agent({ keepAlive: true })

const query = (): Promise<void> =>
  new Promise((resolve, reject) => {
    get(url, { agent }, (reply) => reply.resume().once("end", resolve)).once("error", reject)
  })

/** The run time of the server's first thread, which computes and answers. */
const ranMs = (): number =>
  Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, "utf8").split(" ")[0]) / 1e6

const sample = async (): Promise<HealthSample> => {
  const [startedMs, before] = [performance.now(), ranMs()]
  await query()
  return { ms: performance.now() - startedMs, computedMs: ranMs() - before }
}

// An answer that is noticed late would seem to take as long as the server computes meanwhile.
setPriority(constants.priority.PRIORITY_HIGHEST)
for await (const line of createInterface({ input: process.stdin })) {
  const samples: Promise<HealthSample>[] = []
  const startedMs = performance.now()
  for (let dueMs = 0; dueMs < Number(line); dueMs += QUERY_EVERY_MS) {
    await pause(Math.max(0, startedMs + dueMs - performance.now()))
    samples.push(sample())
  }
  console.log(JSON.stringify(await Promise.all(samples)))
}
agent.destroy()
