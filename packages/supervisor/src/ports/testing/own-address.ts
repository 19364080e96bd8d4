/** Runs in a network of its own: listens on an address that is not loopback, and connects to it. */
import { once } from "node:events"
import type { AddressInfo } from "node:net"
import { createServer } from "node:net"
import { connectToPort } from "../connect.ts"
import { readListening } from "../listening.ts"

const [host = ""] = process.argv.slice(2)
const server = createServer((socket) => socket.end("reached"))
await once(server.listen(0, host), "listening")
const { port } = server.address() as AddressInfo
const [{ address } = { address: "" }] = await readListening()
const socket = await connectToPort(port, new AbortController().signal)
for await (const chunk of socket) console.log(address, String(chunk))
socket.destroy()
server.close()
