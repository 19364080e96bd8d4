import { execFile, spawn } from "node:child_process"
import { once } from "node:events"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { promisify } from "node:util"
import { MARK_VARIABLE } from "@berth/protocol/process-mark"
import { expect, it, onTestFinished } from "vitest"
import { isBare } from "./mark.ts"

/** The fields of `/proc/PID/stat` that tell of an environment: the start of the code, and both ends. */
const statWith = (code: number, from: number, to: number): string => {
  const fields: (string | number)[] = Array(49).fill(7)
  fields[23] = code
  fields[47] = from
  fields[48] = to
  return `42 (a) b) ${fields.join(" ")}`
}

it.each([
  ["has an environment of no length", statWith(1000, 2000, 2000), true],
  ["has one of some length", statWith(1000, 2000, 2100), false],
  ["execs, and its environment is copied", statWith(0, 2000, 2000), false],
  ["execs, and its environment has no place yet", statWith(0, 0, 0), false],
  ["does not show its addresses", statWith(1, 0, 0), false],
])("tells whether a process has no environment: it %s", (_, stat, isEmpty) => {
  expect(isBare(stat)).toBe(isEmpty)
})

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
