import { spawn } from "node:child_process"
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { text } from "node:stream/consumers"
import { fileURLToPath } from "node:url"
import { requires } from "@berth/testing/requires"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { systemClock } from "../clock.ts"
import { type Launched, launch } from "../launch.ts"
import { Family, zombies } from "../testing/family.ts"
import { until } from "../testing/until.ts"
import { endTree } from "./end.ts"

const clock = systemClock
const never = new AbortController().signal
let family: Family
let directory: string
beforeEach(async () => {
  family = new Family()
  directory = await mkdtemp(join(tmpdir(), "berth-tree-"))
})
afterEach(async () => {
  family.killAll()
  await rm(directory, { recursive: true, force: true })
})

/** Starts a script that writes the line `up` when all is as the test wants it. */
const startTree = async (script: string): Promise<Launched> => {
  const launched = await launch(
    { command: ["/bin/sh", "-c", script], env: family.env, cwd: directory },
    { conversation: false, signal: never },
  )
  let said = ""
  launched.output.listen((chunk) => {
    said += chunk.toString()
  })
  await until(() => said.includes("up\n"))
  return launched
}

const end = (launched: Launched, graceMs = 5_000) => endTree(launched.tree, { clock, graceMs })

const expectNothingLeft = async (launched: Launched) => {
  expect(family.running()).toEqual([])
  await launched.exited
  expect(zombies()).toEqual([])
  launched.output.close()
}

describe("endTree", () => {
  it("[R2.14] ends a process with its children, and has nothing to kill when all obey", async () => {
    const launched = await startTree("sleep 1000 & sleep 1000 & echo up; wait")
    expect(family.running()).toHaveLength(3)
    expect(await end(launched)).toEqual({ asked: 3, killed: 0, left: [] })
    await expectNothingLeft(launched)
  })

  it("[R2.14] kills processes that ignore SIGTERM, after the grace", async () => {
    const launched = await startTree(
      `trap "" TERM; sh -c 'trap "" TERM; echo up; while :; do sleep 1000; done' & wait`,
    )
    const beganAtMs = clock.nowMs()
    const { killed, left } = await end(launched, 100)
    expect(clock.nowMs() - beganAtMs).toBeGreaterThanOrEqual(100)
    expect(killed).toBeGreaterThanOrEqual(2)
    expect(left).toEqual([])
    await expectNothingLeft(launched)
  })

  it("[R2.14] waits within the grace for a child that takes longer than its parent", async () => {
    const slow = `trap 'echo asked > ${directory}/asked; exit 0' TERM; echo up; while :; do sleep 0.05; done`
    const launched = await startTree(`sh -c '${slow.replaceAll("'", `'"'"'`)}' & wait`)
    expect(await end(launched)).toMatchObject({ killed: 0, left: [] })
    expect(await readFile(join(directory, "asked"), "utf8")).toBe("asked\n")
    await expectNothingLeft(launched)
  })

  it("[R2.14] ends a stopped process, which cannot hear SIGTERM by itself", async () => {
    const launched = await startTree("sleep 1000 & kill -STOP $!; echo up; wait")
    expect(await end(launched)).toMatchObject({ killed: 0, left: [] })
    await expectNothingLeft(launched)
  })

  it("[R2.14] finds processes that left the group, the session and their parent", async () => {
    const launched = await startTree(
      `setsid sh -c 'sleep 1000 & echo $! > ${directory}/pid' &
       wait; setsid sleep 1001 & set -m; sleep 1002 & echo up; wait`,
    )
    const orphan = Number(await readFile(join(directory, "pid"), "utf8"))
    expect(family.running()).toContain(orphan)
    expect(await end(launched)).toEqual({ asked: 4, killed: 0, left: [] })
    await expectNothingLeft(launched)
  })

  it("[R2.14] finds such processes also when their root has long ended", async () => {
    const launched = await startTree(
      "setsid sh -c 'sleep 1000 & sleep 1001 &'; sleep 1002 & echo up",
    )
    await launched.exited
    expect(family.running()).toHaveLength(3)
    expect(await end(launched)).toEqual({ asked: 3, killed: 0, left: [] })
    await expectNothingLeft(launched)
  })

  it("[R2.14] finds a process with an empty environment as long as it is in the session", async () => {
    const launched = await startTree("(env -i sleep 1003 &) ; echo up")
    await launched.exited
    expect(await end(launched)).toEqual({ asked: 1, killed: 0, left: [] })
    launched.output.close()
  })

  it("[R2.14] keeps up with a process that forks all the time and ignores SIGTERM", async () => {
    const forking = `trap "" TERM; n=0; while [ $n -lt 400 ]; do setsid sleep 1000 & n=$((n+1)); [ $n = 20 ] && echo up; done; wait`
    const launched = await startTree(forking)
    const { left } = await end(launched, 0)
    expect(left).toEqual([])
    await expectNothingLeft(launched)
  })

  it("[R2.14] finds a process that execs all the time, and so has no environment now and then", async () => {
    await writeFile(join(directory, "again"), '#!/bin/sh\nexec "$0"\n', { mode: 0o755 })
    const launched = await startTree("setsid sh -c './again &'; echo up")
    await launched.exited
    const looks = Array.from({ length: 100 }, () => () => launched.tree.find())
    for (const look of looks) expect(await look()).toHaveLength(1)
    await end(launched)
    await expectNothingLeft(launched)
  })

  it("cuts the grace short in a hurry that begins during the grace", async () => {
    const deaf = `trap "echo asked" TERM; echo up; while :; do sleep 0.01; done`
    const launched = await startTree(deaf)
    const hurry = new AbortController()
    launched.output.listen((chunk) => {
      if (chunk.includes("asked")) hurry.abort()
    })
    const graceMs = 3_600_000
    const ended = await endTree(launched.tree, { clock, graceMs, hurry: hurry.signal })
    expect(ended).toMatchObject({ left: [] })
    expect(ended.killed).toBeGreaterThanOrEqual(1)
    await expectNothingLeft(launched)
  })

  it("ends no other process, and none when there is nothing to end", async () => {
    const launched = await startTree("echo up")
    const neighbour = await startTree("setsid sh -c 'sleep 1000 &'; echo up; sleep 1000")
    await launched.exited
    expect(await end(launched)).toEqual({ asked: 0, killed: 0, left: [] })
    expect(family.running()).toHaveLength(3)
    await end(neighbour)
    await expectNothingLeft(neighbour)
  })
})

/** Runs a script of this folder in a process of its own, and parses its output. */
const runFixture = async (prefix: string[], name: string): Promise<Record<string, unknown>> => {
  const fixture = fileURLToPath(new URL(`./testing/${name}.ts`, import.meta.url))
  const [file, ...args] = [...prefix, process.execPath, "--conditions=source", fixture]
  const child = spawn(file as string, args, { env: family.env, stdio: ["ignore", "pipe", "pipe"] })
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)])
  if (!stdout.startsWith("{")) throw new Error(`${name} said: ${stdout}${stderr}`)
  return JSON.parse(stdout)
}

requires("root").describe("a supervisor that may not trace", () => {
  it("[R2.14] finds processes that its user's processes left behind, through a helper of that user", async () => {
    // A sandbox's supervisor lacks these capabilities, too. Each of them would let it read other users' processes.
    const rights = "-sys_ptrace,-perfmon,-sys_admin"
    const dropped = ["setpriv", `--inh-caps=${rights}`, `--bounding-set=${rights}`]
    expect(await runFixture(dropped, "without-trace")).toEqual({
      readable: false,
      end: { asked: 3, killed: 0, left: [] },
    })
    expect(family.running()).toEqual([])
  })
})

// A machine that allows network namespaces allows pid namespaces as well.
requires("root", "tini", "networkNamespaces").describe("a sandbox of its own", () => {
  it("[R2.14] ends everything but the first process and itself, also a process that hid its origin", async () => {
    const sandbox = ["unshare", "--pid", "--fork", "--mount-proc", "tini", "--"]
    expect(await runFixture(sandbox, "sandbox")).toEqual({
      hidden: true,
      reports: [
        { name: "agent", asked: 1, killed: 0, left: [] },
        { name: "everything else", asked: 1, killed: 0, left: [] },
      ],
      remaining: 0,
    })
  })
})

describe("a supervisor outside of a sandbox", () => {
  it("does not take the machine's processes for its own", async () => {
    const { ownPidNamespace } = await import("./pid-namespace.ts")
    expect(ownPidNamespace()).toBeUndefined()
  })
})
