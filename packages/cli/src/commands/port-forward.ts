import { once } from "node:events"
import { type AddressInfo, createServer, type Server, type Socket } from "node:net"
import { BerthError } from "@berth/protocol/errors"
import type { Sandbox } from "@berth/sdk/sandboxes"
import { type CommandContext, type DefineCommand, toJsonLine } from "../command.ts"
import { addConfigFlags } from "../config-flags.ts"
import { renderError } from "../render-error.ts"
import { connect, findSandbox } from "../server.ts"
import { runUntilSignal } from "../signals.ts"

const HELP = `
Listens on this machine's loopback and passes each connection to the sandbox's port, also to one that is bound to the
sandbox's own loopback. LOCAL:PORT names both ends, PORT the same for both; with LOCAL 0, a free port is chosen. The
address is written to standard output. Connections with traffic keep the sandbox. Ctrl-c ends it.

Examples:
  berth port-forward app 3000
  berth port-forward app 8080:3000 5432
  berth port-forward app 0:3000 --json`

export const define: DefineCommand = async (command, context) => {
  command
    .description("Brings ports of a sandbox to this machine.")
    .argument("<sandbox>", "its id, the beginning of it, or its workspace")
    .argument("<port...>", "PORT, or LOCAL:PORT")
    .option("--json", "write each address as a line of JSON")
    .addHelpText("after", HELP)
  await addConfigFlags(command, "dataDir")
  command.action(async (name: string, words: string[], { json = false, ...host }) => {
    const wanted = words.map(pairOf)
    const sandbox = await findSandbox(await connect(host), name, context.err, { start: true })
    await runUntilSignal(() => forward(sandbox, wanted, json, context), context.err)
  })
}

interface Pair {
  readonly local: number
  readonly inside: number
}

const MAX_PORT = 65_535

const pairOf = (word: string): Pair => {
  const [, local, inside] = /^(?:(\d{1,5}):)?(\d{1,5})$/.exec(word) ?? []
  const pair = { local: Number(local ?? inside), inside: Number(inside) }
  if (pair.inside >= 1 && pair.inside <= MAX_PORT && pair.local <= MAX_PORT) return pair
  throw new BerthError("input.usage", `a port is PORT or LOCAL:PORT, not ${word}`)
}

/** Listens for each pair, and passes connections on until it is stopped. */
const forward = async (
  sandbox: Sandbox,
  pairs: readonly Pair[],
  json: boolean,
  { out, err }: CommandContext,
) => {
  const open = new Set<Socket>()
  const servers: Server[] = []
  const stop = async () => {
    for (const server of servers) server.close()
    for (const socket of open) socket.destroy()
  }
  for (const { local, inside } of pairs) {
    const server = createServer({ allowHalfOpen: true }, (socket) => {
      open.add(socket)
      socket.once("close", () => open.delete(socket))
      passOn(sandbox, inside, socket).catch((thrown) => {
        socket.destroy()
        err(renderError(thrown, { json }))
      })
    })
    servers.push(server)
    const port = await listen(server, local)
    const address = `127.0.0.1:${port}`
    out(json ? toJsonLine({ address, port: inside }) : `${address} leads to port ${inside}\n`)
  }
  return { stop }
}

const listen = async (server: Server, port: number): Promise<number> => {
  try {
    server.listen(port, "127.0.0.1")
    await once(server, "listening")
    return (server.address() as AddressInfo).port
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw new BerthError("input.usage", `port ${port} of this machine cannot be used (${code})`, {
      cause,
    })
  }
}

/** Passes a connection on. Both directions end separately, as on a direct connection. */
const passOn = async (sandbox: Sandbox, port: number, socket: Socket): Promise<void> => {
  const connection = await sandbox.ports.connect(port)
  socket.once("close", () => connection.close())
  socket.on("error", () => connection.close())
  const send = async () => {
    for await (const bytes of socket as AsyncIterable<Buffer>) await connection.write(bytes)
    await connection.end()
  }
  const receive = async () => {
    for await (const bytes of connection.output)
      if (!socket.write(bytes)) await Promise.race([once(socket, "drain"), once(socket, "close")])
    socket.end()
  }
  const sending = send().catch(() => connection.close())
  await receive()
  await sending
}
