import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { newId } from "@berth/protocol/ids"
import { expect, it, onTestFinished } from "vitest"
import type { Connection } from "./call.ts"
import { type CommandLine, type CommandOptions, commandsOf } from "./commands.ts"
import { placeOf } from "./place.ts"

/** Runs a command at a server that ends the connection at once, and returns the start that the address named. */
const saidEarly = async (line: CommandLine, options: CommandOptions): Promise<unknown> => {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  onTestFinished(() => void server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  let start: string | null = null
  server.on("upgrade", (request, socket) => {
    start = new URL(request.url ?? "", url).searchParams.get("start")
    socket.destroy()
  })
  const { fetch, WebSocket } = globalThis
  const find = async () => ({ url, token: "t" })
  const connection: Connection = { url, find, deadlineMs: 10_000, fetch, WebSocket }
  const commands = commandsOf(placeOf(connection, newId.sandbox()))
  await expect(commands.run(line, options)).rejects.toMatchObject({ code: "server.unreachable" })
  return start === null ? null : JSON.parse(start)
}

it("a command is named in the address of its connection", async () => {
  expect(await saidEarly("echo a", { cwd: "b" })).toEqual({
    command: ["/bin/sh", "-c", "echo a"],
    cwd: "b",
  })
})

it("a command is not named in the address where it is long or has variables", async () => {
  expect(await saidEarly(["true", "x".repeat(2_000)], {})).toBeNull()
  expect(await saidEarly(["true"], { env: { KEY: "secret" } })).toBeNull()
})
