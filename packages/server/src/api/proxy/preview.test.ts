import { once } from "node:events"
import { mkdtempSync, rmSync } from "node:fs"
import { createServer } from "node:http"
import { connect } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, it, onTestFinished } from "vitest"
import { WebSocket, WebSocketServer } from "ws"
import { openSandboxUse, type UseParts } from "../../sandboxes/requests/use.ts"
import type { Sandboxes } from "../../sandboxes/sandboxes.ts"
import { openRows } from "../../sandboxes/state/rows.ts"
import { Transients } from "../../sandboxes/state/transients.ts"
import { FakeClock } from "../../sandboxes/testing/clock.ts"
import { insertRow } from "../../sandboxes/testing/rows.ts"
import { storeOfFile } from "../../sandboxes/testing/store.ts"
import { LEASE_TICK_MS, openLeases } from "../../sandboxes/use/leases.ts"
import { serveApi, TOKEN } from "../testing/make-api.ts"
import { QUIET_PREVIEW_MS } from "./lease-requests.ts"

const STOP = { cause: "idle", reason: "of a test" } as const

const store = storeOfFile()

/** Starts a server with real leases in front of one sandbox with an echoing port. */
const start = async () => {
  const directory = mkdtempSync(join(tmpdir(), "berth-preview-"))
  const path = join(directory, "socket")
  const inside = createServer()
  const ports = new WebSocketServer({ server: inside })
  ports.on("connection", (socket) => socket.on("message", (bytes) => socket.send(bytes)))
  inside.listen(path)
  await once(inside, "listening")
  const clock = new FakeClock()
  const rows = openRows(store.db, clock)
  const leases = await openLeases({ db: store.db, clock, onFree: () => {} })
  const sandbox = await insertRow(rows, "ready")
  const parts: Partial<UseParts> = {
    leases,
    rows,
    transients: new Transients(),
    held: () => undefined,
    sharedDirectoryOf: async () => ({ sandbox, directory, socket: path, token: "inside" }),
    bridges: {
      dial: async () => {
        const socket = connect(path)
        await once(socket, "connect")
        return socket.on("error", () => {})
      },
    },
  }
  const uses = openSandboxUse(parts as UseParts)
  const running: Partial<Sandboxes["running"]> = { stateOf: async () => "running" }
  const sandboxes = { use: uses, running } as Partial<Sandboxes>
  onTestFinished(() => {
    for (const client of ports.clients) client.terminate()
    inside.close()
    leases.close()
    rmSync(directory, { recursive: true })
  })
  const { url } = await serveApi({ sandboxes: async () => sandboxes as Sandboxes })
  const client = new WebSocket(
    `${url.replace("http", "ws")}/v1/sandboxes/${sandbox}/ports/80/connect`,
    { headers: { authorization: `Bearer ${TOKEN}` } },
  )
  await once(client, "open")
  return {
    client,
    /** Sends bytes and waits for their echo. */
    say: async () => {
      client.send("hello")
      await once(client, "message")
    },
    pass: async (ms: number) => {
      for (let passed = 0; passed < ms; passed += LEASE_TICK_MS) {
        clock.pass(LEASE_TICK_MS)
        await leases.expire()
      }
    },
    kinds: async () => (await leases.of(sandbox)).map(({ kind }) => kind),
    isStopped: () => rows.beginStop(sandbox, STOP),
  }
}

it("[R1.7] leases a sandbox to a preview while bytes pass, and not for its open connection alone", async () => {
  const { client, say, pass, kinds, isStopped } = await start()
  for (let time = 0; time < 3; time += 1) {
    await pass(QUIET_PREVIEW_MS - LEASE_TICK_MS)
    await say()
  }
  expect(await kinds()).toEqual(["preview"])
  await pass(QUIET_PREVIEW_MS)
  expect(await kinds()).toEqual([])
  expect(client.readyState).toBe(WebSocket.OPEN)
  // The next connection leases it again.
  await say()
  await expect.poll(kinds).toEqual(["preview"])
  expect(await isStopped()).toBe(false)
  client.close()
  await expect.poll(kinds).toEqual([])
  expect(await isStopped()).toBe(true)
})
