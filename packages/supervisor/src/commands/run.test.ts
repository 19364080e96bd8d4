import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { COMMAND_CLOSE } from "@berth/protocol/command-limits"
import { CommandServerMessage } from "@berth/protocol/commands"
import { requires } from "@berth/testing/requires"
import { describe, expect, it } from "vitest"
import { until } from "../processes/testing/until.ts"
import { Client, run, sh, stage } from "./testing/stage.ts"

describe("a command that a client runs", () => {
  it("sends its output on both streams, and how it ended", async () => {
    const { path, workspace } = await stage()
    const client = await run(path, sh("pwd; echo $A >&2; exit 7", { env: { A: "aside" } }))
    const exit = await client.message("exit")
    expect(exit).toMatchObject({ status: 7, signal: null, timedOut: false, left: [] })
    expect(client.stdout).toBe(`${workspace}\n`)
    expect(client.stderr).toBe("aside\n")
    expect(client.messages.map(({ type }) => type)).toEqual(["started", "exit"])
    expect(await client.closed).toBe(1000)
    for (const message of client.messages) CommandServerMessage.parse(message)
  })

  it("starts where the connection's address names it, and takes input as any other", async () => {
    const { path } = await stage()
    const client = await new Client(path, naming(sh("cat; exit 7", { stdin: true }))).opened()
    client.stdin("in")
    client.say({ type: "stdin.end" })
    expect(await client.message("exit")).toMatchObject({ status: 7 })
    expect(client.stdout).toBe("in")
    expect(client.messages.map(({ type }) => type)).toEqual(["started", "exit"])
  })

  it.each(["no json", { command: [] }])(
    "is refused with status 400 where the connection's address names %j",
    async (start) => {
      const { path } = await stage()
      const { websocket } = new Client(path, naming(start))
      const status = await new Promise((resolve) => {
        websocket.on("unexpected-response", (_, { statusCode }) => resolve(statusCode))
        websocket.on("open", () => resolve("open"))
      })
      expect(status).toBe(400)
    },
  )

  it("can open its three streams by name", async () => {
    const { path } = await stage()
    const script = "cat /dev/stdin > /dev/stdout; echo done > /dev/stderr"
    const client = await run(path, sh(script, { stdin: true }))
    client.stdin("by name")
    client.say({ type: "stdin.end" })
    expect(await client.message("exit")).toMatchObject({ status: 0 })
    expect([client.stdout, client.stderr]).toEqual(["by name", "done\n"])
  })

  it("carries every byte both ways, in order", async () => {
    const { path } = await stage()
    const client = await run(path, { command: ["cat"], stdin: true })
    const bytes = Buffer.alloc(3_000_000, Buffer.from(Array.from({ length: 251 }, (_, n) => n + 5)))
    for (let at = 0; at < bytes.length; at += 500_000)
      client.stdin(bytes.subarray(at, at + 500_000))
    client.say({ type: "stdin.end" })
    expect(await client.message("exit")).toMatchObject({ status: 0 })
    expect(Buffer.from(client.stdout, "latin1").equals(bytes)).toBe(true)
  })

  it("has an empty standard input unless the client sends one, which it may leave unread", async () => {
    const { path } = await stage()
    const empty = await run(path, { command: ["cat"] })
    expect(await empty.message("exit")).toMatchObject({ status: 0 })
    const unread = await run(path, { command: ["true"], stdin: true })
    for (let n = 0; n < 10; n++) unread.stdin(Buffer.alloc(100_000))
    expect(await unread.message("exit")).toMatchObject({ status: 0 })
  })

  it("gets the client's signals with its whole group, and tells a signal from a status", async () => {
    const { path, family } = await stage()
    const client = await run(path, sh("echo up; sleep 1000 | sleep 1000"))
    await client.until(() => client.stdout === "up\n")
    client.say({ type: "signal", signal: "SIGINT" })
    expect(await client.message("exit")).toMatchObject({ status: null, signal: "SIGINT" })
    expect(family.running()).toEqual([])
  })

  it("[R2.9] is ended with all its descendants when its time is over", async () => {
    const { path, family } = await stage()
    const script = "(setsid sleep 1000 &); (setsid sh -c 'setsid sleep 1000 &' &); sleep 1000"
    const client = await run(path, sh(script, { timeoutMs: 300 }))
    expect(await client.message("exit")).toMatchObject({
      status: null,
      signal: "SIGTERM",
      timedOut: true,
    })
    expect(family.running()).toEqual([])
  })

  it("leaves no process running when it ends, not even outside its group and session", async () => {
    const { path, family } = await stage()
    const leave = "setsid sh -c 'setsid sleep 1000 >/dev/null 2>&1 & echo $!' &"
    const client = await run(path, sh(`${leave} wait; echo end`))
    expect(await client.message("exit")).toMatchObject({ status: 0 })
    expect(client.stdout).toMatch(/^\d+\nend\n$/)
    expect(family.running()).toEqual([])
  })

  it.each([
    [{ command: ["no-such-program"] }, "process.not_found", "there is no program no-such-program"],
    [{ command: ["./none"] }, "process.not_found", "there is no program ./none"],
    [{ command: ["./script"] }, "process.not_found", "./script needs a program"],
    [sh("true", { cwd: "gone" }), "process.no_directory", "there is no directory"],
    [sh("true", { cwd: "script" }), "process.no_directory", "there is no directory"],
    [{ command: ["."] }, "process.denied", ". may not be run in"],
    [{ command: ["true", "x".repeat(200_000)] }, "input.too_large", "longer than is possible"],
    [{ command: [] }, "input.invalid", "message.command is too short"],
    [{ command: ["true"], shell: true }, "input.invalid", "message.shell is unknown"],
    ["no json", "input.invalid", "not JSON"],
  ])("that cannot be started is refused: %j", async (start, code, words) => {
    const { path, workspace } = await stage()
    writeFileSync(join(workspace, "script"), "#!/no/such/interpreter\n", { mode: 0o755 })
    const client = await new Client(path, "/commands/run").opened()
    client.say(start)
    const { error } = await client.message("error")
    expect(error).toMatchObject({ code, message: expect.stringContaining(words) })
    expect(error.hint).not.toBe("")
    expect(await client.closed).toBe(COMMAND_CLOSE.failed)
  })

  it("is ended when the client sends input that it did not announce", async () => {
    const { path, family } = await stage()
    const client = await run(path, { command: ["sleep", "1000"] })
    await client.message("started")
    client.stdin("for nobody")
    expect((await client.message("error")).error).toMatchObject({ code: "input.invalid" })
    expect(await client.closed).toBe(COMMAND_CLOSE.failed)
    expect(family.running()).toEqual([])
  })

  it("starts in a directory below the workspace, or in any other", async () => {
    const { path, workspace } = await stage()
    mkdirSync(join(workspace, "a"))
    const below = await run(path, { command: ["pwd"], cwd: "a" })
    await below.message("exit")
    const other = await run(path, { command: ["pwd"], cwd: "/usr" })
    await other.message("exit")
    expect([below.stdout, other.stdout]).toEqual([`${workspace}/a\n`, "/usr\n"])
  })
})

/** The address of a connection that names its command. */
const naming = (start: unknown): string =>
  `/commands/run?${new URLSearchParams({ start: typeof start === "string" ? start : JSON.stringify(start) })}`

/** Tells whether none of the client's input is taken, over some looks. */
const isHeld = async ({ websocket }: Client): Promise<boolean> => {
  const waiting = websocket.bufferedAmount
  let looks = 0
  await until(() => websocket.bufferedAmount !== waiting || looks++ === 20)
  return waiting > 0 && websocket.bufferedAmount === waiting
}

describe("a client that is gone", () => {
  const script =
    "(setsid sh -c 'setsid sleep 1000 >/dev/null 2>&1 &' &); echo up; sleep 1000 & sleep 1000"

  it("before it named a command does not hold up the feature's end", async () => {
    const { path, feature } = await stage()
    const client = await new Client(path, "/commands/run").opened()
    client.websocket.terminate()
    await client.closed
    await feature.close()
  })

  it("leaves no process running, not even one that ignores SIGTERM", async () => {
    const { path, family } = await stage()
    const client = await run(path, sh(`trap '' TERM; ${script}`))
    await client.until(() => client.stdout === "up\n")
    client.websocket.terminate()
    await until(() => family.running().length === 0)
  })

  it.each(["started", "up"])("leaves no process running (it goes at %j)", async (phase) => {
    const { path, family } = await stage()
    const client = await run(path, sh(script))
    if (phase === "started") await client.message("started")
    else await client.until(() => client.stdout === "up\n")
    client.websocket.terminate()
    await until(() => family.running().length === 0)
  })

  it("right after the start frame leaves no process running", async () => {
    const { path, family } = await stage()
    const clients = await Promise.all(Array.from({ length: 20 }, () => run(path, sh(script))))
    for (const client of clients) client.websocket.terminate()
    const last = await run(path, { command: ["true"] })
    await last.message("exit")
    await until(() => family.running().length === 0)
  })

  it("that named the command with its connection leaves no process running", async () => {
    const { path, family } = await stage()
    const clients = Array.from({ length: 20 }, () => new Client(path, naming(sh(script))))
    for (const client of clients) await client.opened()
    for (const client of clients) client.websocket.terminate()
    const last = await run(path, { command: ["true"] })
    await last.message("exit")
    await until(() => family.running().length === 0)
  })

  it("while the command does not read its input leaves no process running", async () => {
    const { path, family } = await stage()
    const client = await run(path, { command: ["sleep", "1000"], stdin: true })
    await client.message("started")
    for (let n = 0; n < 40; n++) client.stdin(Buffer.alloc(500_000))
    await until(() => isHeld(client))
    client.websocket.terminate()
    await until(() => family.running().length === 0)
  })

  it("while it does not read the command's output leaves no process running", async () => {
    const { path, family } = await stage()
    const client = await run(path, { command: ["yes"] })
    await client.message("started")
    client.websocket.pause()
    const [yes] = family.running()
    const { readProcess } = await import("../processes/tree/proc.ts")
    await until(() => readProcess(yes ?? 0)?.state === "S")
    client.websocket.terminate()
    await until(() => family.running().length === 0)
  })
})

requires("root").describe("the user of a command", () => {
  const user = { uid: 61234, gid: 61234 }
  const environment = { PATH: "/home/agent/.local/bin:/usr/bin:/bin", HOME: "/home/agent" }

  it("is the sandbox's user, who can open its streams by name, and leaves no process", async () => {
    const { path, family } = await stage({ user })
    const script = "cat /dev/stdin; id -u > /dev/stderr; (setsid sleep 1000 &)"
    const client = await run(path, sh(script, { stdin: true, cwd: "/" }))
    client.stdin("in")
    client.say({ type: "stdin.end" })
    expect(await client.message("exit")).toMatchObject({ status: 0 })
    expect([client.stdout, client.stderr]).toEqual(["in", "61234\n"])
    expect(family.running()).toEqual([])
  })

  it("is root on request, whose PATH has no directory of the user", async () => {
    const places = { workspace: "/", home: "/home/agent", toolbox: "/", logs: "/" }
    const { path } = await stage({ user, environment, places })
    const client = await run(path, sh('id -u; echo "$PATH $HOME"', { user: "root" }))
    await client.message("exit")
    expect(client.stdout).toBe("0\n/usr/bin:/bin /root\n")
  })
})
