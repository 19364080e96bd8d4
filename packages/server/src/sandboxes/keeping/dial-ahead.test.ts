import { once } from "node:events"
import { type AddressInfo, connect, createServer, type Socket } from "node:net"
import { expect, it, onTestFinished } from "vitest"
import { dialAhead } from "./dial-ahead.ts"

/** Somebody to connect to, and the first connection as they have it. */
const listen = async () => {
  const server = createServer()
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  onTestFinished(() => void server.close())
  const { port } = server.address() as AddressInfo
  const theirs = once(server, "connection").then(([socket]) => socket as Socket)
  const dial = async () => {
    const socket = connect(port, "127.0.0.1")
    await once(socket, "connect")
    return { socket, token: "t" }
  }
  return { theirs, dial }
}

it("is there for the first who takes it, who ends it", async () => {
  const { dial, theirs } = await listen()
  const ahead = dialAhead(dial)
  const taken = await ahead.take()
  expect(taken).toMatchObject({ token: "t" })
  expect(await ahead.take()).toBeUndefined()
  ahead.drop()
  const socket = await theirs
  taken?.socket.end("said")
  expect(String((await once(socket, "data"))[0])).toBe("said")
  socket.end()
})

it("ends when it is not needed, also before it is made", async () => {
  const { dial, theirs } = await listen()
  const ahead = dialAhead(dial)
  ahead.drop()
  ahead.drop()
  const socket = await theirs
  socket.resume()
  await once(socket, "close")
  expect(await ahead.take()).toBeUndefined()
})

it("is not there where it could not be made", async () => {
  const ahead = dialAhead(() => Promise.reject(new Error("nobody listens")))
  expect(await ahead.take()).toBeUndefined()
})
