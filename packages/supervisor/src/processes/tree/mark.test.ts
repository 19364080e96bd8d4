import { execFile, spawn } from "node:child_process"
import { once } from "node:events"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { promisify } from "node:util"
import { MARK_VARIABLE } from "@berth/protocol/process-mark"
import { ENDLESS, ONE_VARIABLE, withEnvironment } from "@berth/testing/environments"
import { expect, it, onTestFinished } from "vitest"
import { environmentIn, readMarks } from "./mark.ts"

/** The fields of `/proc/PID/stat` that tell of an environment: the start of the code, and both ends. */
const statWith = (code: number, from: number, to: number): string => {
  const fields: (string | number)[] = Array(49).fill(7)
  fields[23] = code
  fields[47] = from
  fields[48] = to
  return `42 (a) b) ${fields.join(" ")}`
}

it.each([
  ["has an environment of no length", statWith(1000, 2000, 2000), "none"],
  ["has one of some length", statWith(1000, 2000, 2100), "there"],
  ["execs, and its environment is copied", statWith(0, 2000, 2000), "unknown"],
  ["execs, and its environment has no place yet", statWith(0, 0, 0), "unknown"],
  ["does not show its addresses", statWith(1, 0, 0), "unknown"],
])("tells whether a process has an environment: it %s", (_, stat, environmentIs) => {
  expect(environmentIn(stat)).toBe(environmentIs)
})

const exec = promisify(execFile)

/** Far above what reading takes, and far below what such an environment would. */
const MAX_GROWTH_BYTES = 200 * 1024 * 1024

it.skipIf(process.arch !== "x64").each([
  ["has no end", ENDLESS],
  ["is one variable of 128 MiB", ONE_VARIABLE],
])("reads a bounded part of an environment that %s, and the others whole", async (_, memory) => {
  const child = spawn("sh", ["-c", `sleep 1000 & echo $!; ${withEnvironment(memory)}`], {
    detached: true,
    env: { PATH: process.env.PATH, [MARK_VARIABLE]: "mark" },
    stdio: ["ignore", "pipe", "inherit"],
  })
  onTestFinished(async () => {
    const gone = once(child, "close")
    process.kill(-(child.pid ?? 0), "SIGKILL")
    await gone
  })
  const pids = [child.pid ?? 0]
  for await (const line of createInterface({ input: child.stdout })) {
    if (line === ".") break
    if (line !== "") pids.push(Number(line))
  }
  const before = process.memoryUsage.rss()
  const { marks, gone } = await readMarks(pids, undefined)
  expect(process.memoryUsage.rss() - before).toBeLessThan(MAX_GROWTH_BYTES)
  expect([...marks]).toEqual([[pids[1], "mark"]])
  expect([...gone]).toEqual([])
})

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

/** Removes the memory of its own environment, and says so. Before it there is nothing but the long last argument. */
const HIDES = `
  use POSIX;
  $| = 1;
  my $page = sysconf(_SC_PAGESIZE);
  open(my $stat, "<", "/proc/self/stat");
  my ($from, $to) = (split / /, (split /\\) /, <$stat>)[-1])[47, 48];
  $from -= $from % $page;
  $to += -$to % $page;
  syscall(${process.arch === "x64" ? 11 : 215}, $from + 0, $to - $from) == 0 or die $!;
  print "hidden\\n";
  sleep 1000`
const LONG = "x".repeat(100_000)

it("takes a process that hides its environment for one without a mark, not for one that has ended", async () => {
  const hiding = spawn("perl", ["-e", HIDES, LONG], { stdio: ["ignore", "pipe", "inherit"] })
  onTestFinished(async () => {
    const gone = once(hiding, "close")
    hiding.kill("SIGKILL")
    await gone
  })
  await once(hiding.stdout, "data")
  const { marks, gone } = await readMarks([hiding.pid as number], undefined)
  expect([...marks, ...gone]).toEqual([])
})
