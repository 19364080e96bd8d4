import { mkdtemp, readdir, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import { requires } from "@berth/testing/requires"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { type Launch, type Launched, launch } from "./launch.ts"
import { Pipes } from "./output/pipes.ts"
import { Family } from "./testing/family.ts"
import { readProcess } from "./tree/proc.ts"

const never = new AbortController().signal
let family: Family
let directory: string
let pipes: Pipes
beforeEach(async () => {
  family = new Family()
  directory = await mkdtemp(join(tmpdir(), "berth-launch-"))
  pipes = new Pipes(directory)
})
afterEach(async () => {
  pipes.close()
  family.killAll()
  await rm(directory, { recursive: true, force: true })
})

const sh = (script: string, more: Partial<Launch> = {}): Launch => ({
  command: ["/bin/sh", "-c", script],
  env: family.env,
  cwd: directory,
  ...more,
})

const hear = (launched: Launched) => {
  const chunks: Buffer[] = []
  launched.output.listen((chunk) => chunks.push(chunk))
  return () => Buffer.concat(chunks).toString()
}

const runToEnd = async (what: Launch, options: { pipes?: Pipes } = {}) => {
  const launched = await launch(what, { ...options, conversation: false, signal: never })
  const said = hear(launched)
  const exit = await launched.exited
  await launched.output.settled()
  launched.output.close()
  return { exit, said: said() }
}

const openFds = () => readdir("/proc/self/fd").then((fds) => fds.length)

describe("launch", () => {
  it("starts a process in a session and group of its own", async () => {
    const launched = await launch(sh("exec sleep 1000"), { conversation: false, signal: never })
    const entry = readProcess(launched.pid)
    expect(entry).toMatchObject({ groupId: launched.pid, sessionId: launched.pid })
    expect(launched.exit).toBeUndefined()
    process.kill(launched.pid, "SIGKILL")
    expect(await launched.exited).toEqual({ status: null, signal: "SIGKILL" })
    expect(launched.exit).toEqual({ status: null, signal: "SIGKILL" })
    launched.output.close()
  })

  it("passes on no variable of the supervisor's own, and no pipe but the process's output", async () => {
    const script =
      "env | cut -d= -f1 | sort | tr '\\n' ' '; ls -l /proc/self/fd | grep berth-pipes | wc -l"
    const { said } = await runToEnd(sh(script), { pipes })
    expect(said).toBe("BERTH_PROCESS BERTH_TEST_FAMILY PATH PWD 1\n")
  })

  it.each([true, false])(
    "reads all output of a process that has ended (pipe: %s)",
    async (pipe) => {
      const script = "head -c 300000 /dev/zero | tr '\\0' x; printf end; exit 7"
      const { exit, said } = await runToEnd(sh(script), pipe ? { pipes } : {})
      expect(exit).toEqual({ status: 7, signal: null })
      expect(said).toHaveLength(300_003)
      expect(said.endsWith("end")).toBe(true)
    },
  )

  it("lets a script write to /dev/stdout and /dev/stderr by name", async () => {
    const script = "echo one > /dev/stderr; echo two > /dev/stdout; echo three | tee /dev/stderr"
    const { exit, said } = await runToEnd(sh(script), { pipes })
    expect(said.split("\n").sort().join(" ").trim()).toBe("one three three two")
    expect(exit.status).toBe(0)
  })

  it.each(["no-such-command", "./missing", "/"])(
    "reports that %s cannot be started",
    async (file) => {
      const launching = launch(
        { command: [file], env: family.env, cwd: directory },
        { conversation: false, signal: never },
      )
      const error = await launching.then(
        () => undefined,
        (thrown: unknown) => thrown,
      )
      expect(error).toBeInstanceOf(BerthError)
      expect(error).toMatchObject({ code: "process.start_failed" })
      expect((error as BerthError).message).toMatch(/could not be started: (ENOENT|EACCES)$/)
    },
  )

  it("tells a missing directory from a missing command", async () => {
    const what = sh("true", { cwd: join(directory, "gone") })
    await expect(launch(what, { conversation: false, signal: never })).rejects.toThrow(
      `there is no directory ${directory}/gone`,
    )
  })

  it("refuses a command that no kernel takes, as a failed start", async () => {
    const what = sh("true", { env: { A: "nul\0byte" } })
    await expect(launch(what, { conversation: false, signal: never })).rejects.toMatchObject({
      code: "process.start_failed",
    })
  })

  it("starts nothing once it is cancelled", async () => {
    const signal = AbortSignal.abort("over")
    const launching = launch(sh("sleep 1000"), { pipes, conversation: false, signal })
    await expect(launching).rejects.toBe("over")
    expect(family.running()).toEqual([])
  })

  it("leaves no file open, whether the process could be started or not", async () => {
    await runToEnd(sh("true"), { pipes })
    pipes.close()
    pipes = new Pipes(directory)
    const before = await openFds()
    for (let n = 0; n < 5; n++) {
      await runToEnd(sh("true"), { pipes })
      await runToEnd({ ...sh(""), command: ["/no/such"] }, { pipes }).catch(() => {})
    }
    pipes.close()
    expect(await openFds()).toBe(before)
    expect(await readdir(directory)).toEqual([])
  })

  it("gives a conversation its own streams, and only standard error is output", async () => {
    const launched = await launch(sh('read line; echo "got $line"; echo aside >&2'), {
      pipes,
      conversation: true,
      signal: never,
    })
    const said = hear(launched)
    launched.stdin?.end("hello\n")
    const answer = Buffer.concat((await launched.stdout?.toArray()) ?? [])
    expect(String(answer)).toBe("got hello\n")
    await launched.exited
    await launched.output.settled()
    launched.output.close()
    expect(said()).toBe("aside\n")
  })
})

requires("root").describe("launch as another user", () => {
  it("runs as that user and group alone, and the user can open the output by name", async () => {
    const script = "id -u; id -g; id -G; echo by name > /dev/stderr"
    const user = { uid: 65534, gid: 65534 }
    const { said } = await runToEnd(sh(script, { user, cwd: "/" }), { pipes })
    expect(said).toBe("65534\n65534\n65534\nby name\n")
  })
})
