import { sampled } from "@berth/testing/sampled"
import { beforeAll, describe, expect, it } from "vitest"
import type { Stage } from "./load.ts"
import { RawClient } from "./raw-client.ts"
import { hasConnectionFrom, tracesOf } from "./traces.ts"

const MIB = 1024 * 1024
const FILE_BYTES = 64 * MIB
/** The number of moments in a run that leaves most out. */
const FEW_PHASES = 4

const FLOOD = ["sh", "-c", "yes & setsid yes & wait"]

interface Sandbox {
  readonly at: (path: string) => string
}

/** Brings a client to the moment at which it leaves. */
type Phase = (client: RawClient, sandbox: Sandbox) => Promise<void>

const upload = (client: RawClient, { at }: Sandbox): Promise<void> =>
  client.request("PUT", at("/files/content?path=cut"), [`Content-Length: ${FILE_BYTES}`])

const run = async (client: RawClient, { at }: Sandbox, command: string[]): Promise<void> => {
  await client.upgrade(at("/commands/run"))
  await client.say({ command, stdin: true })
}

const PHASES: Readonly<Record<string, Phase>> = {
  "in the middle of the request's head": (client, { at }) =>
    client.send(`PUT ${at("/files/content?path=cut")} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuth`),
  "before the first byte of an upload": upload,
  "in the middle of an upload": async (client, sandbox) => {
    await upload(client, sandbox)
    for (let sent = 0; sent < 16; sent++) await client.send(Buffer.alloc(MIB))
  },
  "before the first byte of a download": (client, { at }) =>
    client.request("GET", at("/files/content?path=whole")),
  "in the middle of a download": async (client, { at }) => {
    await client.request("GET", at("/files/content?path=whole"))
    await client.receive(16 * MIB)
  },
  "in the middle of a handshake": (client, { at }) => client.upgrade(at("/commands/run")),
  "after a handshake": async (client, { at }) => {
    await client.upgrade(at("/commands/run"))
    await client.receive(1)
  },
  "when a command is asked for": (client, sandbox) => run(client, sandbox, FLOOD),
  "while a command writes": async (client, sandbox) => {
    await run(client, sandbox, FLOOD)
    await client.receive(16 * MIB)
  },
  "while a command neither writes nor reads": async (client, sandbox) => {
    await run(client, sandbox, ["sleep", "1000"])
    await client.receive(150)
  },
}

/** Adds the cases of clients that go away at any moment. */
export const describeCuts = (stage: () => Stage): void => {
  describe.each([
    ["is cut", (client: RawClient) => client.cut()],
    ["ends its half of the connection", (client: RawClient) => void client.socket.resume().end()],
  ])("a client that %s", (how, leave) => {
    const phases = sampled(`moments at which a client ${how}`, Object.entries(PHASES), FEW_PHASES)
    /** The fewest connections so far: connections of an earlier call may still be closing. */
    let fewest = { server: Number.POSITIVE_INFINITY, supervisor: Number.POSITIVE_INFINITY }
    beforeAll(async () => {
      await stage().box.files.write("whole", new Uint8Array(FILE_BYTES))
    })

    it.each(phases)("%s leaves no connection, process or file", async (_, reach) => {
      const { box, server } = stage()
      const traces = () => tracesOf(server.pid(), box.id)
      const { inside, ...open } = traces()
      fewest = {
        server: Math.min(fewest.server, open.server),
        supervisor: Math.min(fewest.supervisor, open.supervisor),
      }
      const client = await RawClient.open(server.access())
      await reach(client, { at: (path) => `/v1/sandboxes/${box.id}${path}` })
      leave(client)
      await expect.poll(() => hasConnectionFrom(server.pid(), client.port)).toBe(false)
      await expect.poll(() => traces().inside).toEqual(inside)
      // Connections that were kept for the next call may have been closed meanwhile.
      await expect.poll(() => traces().server).toBeLessThanOrEqual(fewest.server)
      await expect.poll(() => traces().supervisor).toBeLessThanOrEqual(fewest.supervisor)
      const { entries } = await box.files.list(".")
      const isLeft = (path: unknown) => /^(cut|\.berth-.*)$/.test(String(path))
      expect(entries.filter(({ path }) => isLeft(path))).toEqual([])
    })
  })
}
