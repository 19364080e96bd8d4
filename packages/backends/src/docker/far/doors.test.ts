import { once } from "node:events"
import { mkdtemp, rm } from "node:fs/promises"
import { type AddressInfo, connect, createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { text } from "node:stream/consumers"
import { newId } from "@berth/protocol/ids"
import { SHARED } from "@berth/protocol/shared-directory"
import { expect, it, onTestFinished, vi } from "vitest"
import { openDoors, type PortAddress } from "./doors.ts"

/** Starts a listener that answers each connection with its name. */
const startListener = async (name: string) => {
  const server = createServer((socket) => {
    socket.on("error", () => {})
    socket.once("data", () => socket.end(name))
  }).listen(0, "127.0.0.1")
  await once(server, "listening")
  onTestFinished(() => void server.close())
  const { port } = server.address() as AddressInfo
  return { host: "127.0.0.1", port }
}

it("leads to the sandbox's current port after `forget`, not to another sandbox on its old port", async () => {
  const sharedDirectory = await mkdtemp(join(tmpdir(), "berth-doors-"))
  onTestFinished(() => rm(sharedDirectory, { recursive: true }))
  const [before, after] = await Promise.all([startListener("another"), startListener("its own")])
  let now: PortAddress | undefined = before
  const doors = openDoors()
  onTestFinished(() => doors.closeAll())
  doors.open(newId.sandbox(), { sharedDirectory, address: async () => now })
  const ask = async () => {
    const socket = connect(join(sharedDirectory, SHARED.socket))
    socket.write("the token")
    // A door without an address may hang up at any moment.
    return await text(socket).catch(() => "")
  }
  await vi.waitFor(async () => expect(await ask()).toBe("another"))
  now = after
  doors.forget()
  expect(await ask()).toBe("its own")
  now = undefined
  doors.forget()
  expect(await ask()).toBe("")
})
