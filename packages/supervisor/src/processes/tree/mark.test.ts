import { execFile, spawn } from "node:child_process"
import { once } from "node:events"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { promisify } from "node:util"
import { MARK_VARIABLE } from "@berth/protocol/process-mark"
import { expect, it, onTestFinished } from "vitest"

const exec = promisify(execFile)

/** Fewer descriptors than one look would take if it read all processes at once. */
const DESCRIPTORS = 100
const PROCESSES = 120
const LOOKS = 64

it("finds all marks, however many look at once, with few descriptors", async () => {
  const script = `for i in $(seq ${PROCESSES}); do sleep 1000 & echo $!; done; echo done; wait`
  const family = spawn("sh", ["-c", script], {
    detached: true,
    env: { ...process.env, [MARK_VARIABLE]: "mark" },
    stdio: ["ignore", "pipe", "inherit"],
  })
  onTestFinished(async () => {
    const gone = once(family, "close")
    process.kill(-(family.pid ?? 0), "SIGKILL")
    await gone
  })
  const pids: string[] = []
  for await (const line of createInterface({ input: family.stdout })) {
    if (line === "done") break
    pids.push(line)
  }
  const program = join(import.meta.dirname, "testing/read-marks.ts")
  const node = [process.execPath, "--conditions=source", program, `${LOOKS}`, ...pids]
  const limited = `ulimit -n ${DESCRIPTORS} && exec "$@"`
  const { stdout } = await exec("sh", ["-c", limited, "sh", ...node])
  expect(JSON.parse(stdout)).toEqual([PROCESSES])
})
