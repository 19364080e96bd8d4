import { CommandInfo, CommandList, CommandServerMessage } from "@berth/protocol/commands"
import { describe, expect, it } from "vitest"
import { until } from "../processes/testing/until.ts"
import { ask, attachTo, Client, run, sh, stage } from "./testing/stage.ts"

const begin = async (path: string, start: object): Promise<CommandInfo> => {
  const { status, body } = await ask(path, "POST", "/commands", start)
  expect(status).toBe(201)
  return CommandInfo.parse(body)
}

describe("a command in the background", () => {
  it("outlives the client that started it, and sends its output again from any byte on", async () => {
    const { path } = await stage()
    const { id, pid } = await begin(
      path,
      sh("echo one; echo two >&2; read x; echo $x", { stdin: true }),
    )
    const first = await attachTo(path, id)
    await first.until(() => first.stdout === "one\n" && first.stderr === "two\n")
    first.websocket.terminate()
    await first.closed

    const second = await attachTo(path, id, "?stdout=2&stderr=4")
    const { command } = await second.message("attached")
    expect(command).toMatchObject({ id, pid, background: true, exit: null })
    expect(command.output?.stdout).toEqual({ from: 0, to: 4 })
    second.stdin("three\n")
    expect(await second.message("exit")).toMatchObject({ status: 0, signal: null })
    expect([second.stdout, second.stderr]).toEqual(["e\nthree\n", ""])
    for (const message of second.messages) CommandServerMessage.parse(message)
    expect(await second.closed).toBe(1000)

    const late = await attachTo(path, id, "?stdout=4")
    expect(await late.message("exit")).toMatchObject({ status: 0 })
    expect([late.stdout, late.stderr]).toEqual(["three\n", "two\n"])
  })

  it("is listed while it runs and after its end, beside the commands of clients", async () => {
    const { path } = await stage()
    const { id } = await begin(path, sh("exit 3"))
    const client = await run(path, { command: ["sleep", "1000"] })
    const started = await client.message("started")
    await until(async () => (await ask(path, "GET", `/commands/${id}`)).body.exit)
    const { commands } = CommandList.parse((await ask(path, "GET", "/commands")).body)
    const seen = commands.map(({ id, background, exit }) => ({ id, background, ...exit }))
    expect(seen).toMatchObject([
      { id: started.id, background: false },
      { id, background: true, status: 3, signal: null },
    ])
  })

  it("gets signals with its whole group, and is ended with all its processes and forgotten", async () => {
    const { path, family } = await stage()
    const script =
      "trap 'echo got' USR1; (setsid sleep 1000 &); (trap 'echo too' USR1; echo up; while :; do sleep 0.01; done) & while :; do sleep 0.01; done"
    const { id } = await begin(path, sh(script))
    const client = await attachTo(path, id)
    await client.until(() => client.stdout === "up\n")
    expect(await ask(path, "POST", `/commands/${id}/signal`, { signal: "SIGUSR1" })).toMatchObject({
      status: 204,
    })
    await client.until(() => client.stdout.includes("got") && client.stdout.includes("too"))
    const removed = await ask(path, "DELETE", `/commands/${id}`)
    expect(removed).toMatchObject({ status: 200, body: { exit: { signal: "SIGTERM" } } })
    expect(await client.message("exit")).toMatchObject({ signal: "SIGTERM" })
    expect(family.running()).toEqual([])
    expect(await ask(path, "GET", `/commands/${id}`)).toMatchObject({
      status: 404,
      body: { code: "commands.unknown" },
    })
  })

  it("of a client can be ended by another, and the client hears of it", async () => {
    const { path } = await stage()
    const client = await run(path, { command: ["sleep", "1000"] })
    const { id } = await client.message("started")
    expect(await ask(path, "DELETE", `/commands/${id}`)).toMatchObject({ status: 200 })
    expect(await client.message("exit")).toMatchObject({ signal: "SIGTERM" })
  })

  it("is not held up by a client that does not read, and says how much output was dropped", async () => {
    const { path } = await stage()
    const { id } = await begin(
      path,
      sh("read x; head -c 5000000 /dev/zero; echo end", { stdin: true }),
    )
    const slow = await attachTo(path, id)
    await slow.message("attached")
    slow.stdin("go\n")
    slow.websocket.pause()
    await until(async () => (await ask(path, "GET", `/commands/${id}`)).body.exit)
    slow.websocket.resume()
    await slow.message("exit")
    const dropped = await slow.message("dropped")
    expect(dropped).toMatchObject({ stream: "stdout" })
    expect(dropped.bytes + slow.stdout.length).toBe(5_000_004)

    const late = await attachTo(path, id)
    await late.message("exit")
    expect(await late.message("dropped")).toMatchObject({ bytes: 5_000_004 - 1024 * 1024 })
    expect(late.stdout.length).toBe(1024 * 1024)
    expect(late.stdout.endsWith("\0end\n")).toBe(true)
  })

  it.each([
    ["POST", "/commands", { command: "true" }, 400],
    ["POST", "/commands", { command: ["no-such-program"] }, 404],
    ["GET", "/commands/cmd-0", undefined, 404],
    ["DELETE", "/commands/cmd-0", undefined, 404],
    ["POST", "/commands/cmd-0/signal", { signal: "SIGTERM" }, 404],
    ["POST", "/commands/cmd-0/signal", { signal: "SIGFOO" }, 400],
  ])("refuses %s %s %j", async (method, url, body, status) => {
    const { path } = await stage()
    expect(await ask(path, method, url, body)).toMatchObject({ status })
  })

  it("cannot be attached to by an unknown id, when a client runs it, or from bytes beyond its output", async () => {
    const { path } = await stage()
    const { id } = await begin(path, { command: ["true"] })
    const client = await run(path, { command: ["sleep", "1000"] })
    const started = await client.message("started")
    const refusal = (url: string) =>
      new Promise((resolve) => {
        const { websocket } = new Client(path, url)
        websocket.on("unexpected-response", (_, { statusCode }) => resolve(statusCode))
      })
    expect(await refusal("/commands/cmd-0/attach")).toBe(404)
    expect(await refusal(`/commands/${started.id}/attach`)).toBe(404)
    expect(await refusal(`/commands/${id}/attach?stdout=1`)).toBe(400)
    expect(await refusal(`/commands/${id}/attach?stderr=-1`)).toBe(400)
  })

  it("ends when the sandbox goes down, as do the commands of clients", async () => {
    const { path, family, feature } = await stage()
    const { id } = await begin(path, sh("sleep 1000"))
    const attached = await attachTo(path, id)
    const client = await run(path, { command: ["sleep", "1000"] })
    await client.message("started")
    await Promise.all([feature.close(), feature.close()])
    expect(family.running()).toEqual([])
    expect(await client.message("exit")).toMatchObject({ signal: "SIGTERM" })
    expect(await attached.message("exit")).toMatchObject({ signal: "SIGTERM" })
  })

  it("is forgotten once many others have ended after it", async () => {
    const { path } = await stage()
    const { id } = await begin(path, { command: ["true"] })
    await until(async () => (await ask(path, "GET", `/commands/${id}`)).body.exit)
    for (let n = 0; n < 13; n++)
      await Promise.all(Array.from({ length: 10 }, () => begin(path, { command: ["true"] })))
    await until(async () => (await ask(path, "GET", `/commands/${id}`)).status === 404)
    expect((await ask(path, "GET", "/commands")).body.commands.length).toBeLessThanOrEqual(131)
  })
})
