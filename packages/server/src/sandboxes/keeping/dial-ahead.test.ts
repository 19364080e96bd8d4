import { once } from "node:events"
import { type AddressInfo, connect, createServer, type Socket } from "node:net"
import { expect, it, onTestFinished } from "vitest"
import { dialAhead } from "./dial-ahead.ts"

/** Starts a listener to connect to, which has the other end of the first connection. */
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

it("hands the connection to the first caller that takes it, and leaves it open for that caller", async () => {
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

it("ends the connection when it is dropped, also before it is made", async () => {
  const { dial, theirs } = await listen()
  const ahead = dialAhead(dial)
  ahead.drop()
  ahead.drop()
  const socket = await theirs
  socket.resume()
  await once(socket, "close")
  expect(await ahead.take()).toBeUndefined()
})

it("hands out no connection where none could be made", async () => {
  const ahead = dialAhead(() => Promise.reject(new Error("nobody listens")))
  expect(await ahead.take()).toBeUndefined()
})
