import { createServer, type RequestListener } from "node:http"
import type { AddressInfo } from "node:net"
import { inspect } from "node:util"
import { createContext, runInContext } from "node:vm"
import { BerthError } from "@berth/protocol/errors"
import { newId } from "@berth/protocol/ids"
import { build } from "esbuild"
import { afterEach, describe, expect, it } from "vitest"
import { createClient } from "./client.ts"

const HEALTH = { version: "1.2.3", pid: 7, uptimeMs: 5 }
const STATUS = {
  ...HEALTH,
  startedAt: "2026-01-01T00:00:00.000Z",
  installationId: newId.installation(),
  dataDir: "/data",
  backend: "embedded",
}

const cleanUp: (() => unknown)[] = []
afterEach(async () => {
  for (const undo of cleanUp.splice(0).reverse()) await undo()
})

const serve = async (listener: RequestListener): Promise<string> => {
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  cleanUp.push(() => {
    server.close()
    server.closeAllConnections()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

const answer = (status: number, body: unknown) =>
  serve((_, reply) => {
    reply.writeHead(status, { "content-type": "application/json" })
    reply.end(typeof body === "string" ? body : JSON.stringify(body))
  })

describe("createClient", () => {
  it("sends the token, asks the right path and returns a checked reply", async () => {
    const seen: unknown[] = []
    const url = await serve((request, reply) => {
      seen.push([request.method, request.url, request.headers.authorization])
      reply.end(JSON.stringify(request.url === "/v1/health" ? HEALTH : STATUS))
    })
    expect(await createClient({ url }).health()).toEqual(HEALTH)
    expect(await createClient({ url, token: "abc" }).status()).toEqual(STATUS)
    expect(seen).toEqual([
      ["GET", "/v1/health", undefined],
      ["GET", "/v1/status", "Bearer abc"],
    ])
  })

  it("takes a token with a line break at its end, as files have it", async () => {
    const url = await serve((request, reply) => {
      reply.end(JSON.stringify({ ...STATUS, version: request.headers.authorization }))
    })
    const { version } = await createClient({ url, token: "abc\n" }).status()
    expect(version).toBe("Bearer abc")
  })

  it("refuses a token that no header can hold, and does not show it", async () => {
    const url = await answer(200, STATUS)
    const failed = createClient({ url, token: "secret\ntoken" }).status()
    await expect(failed).rejects.toMatchObject({ code: "input.invalid" })
    expect(inspect(await failed.catch((thrown) => thrown), { depth: 9 })).not.toContain("secret")
  })

  it("throws the error that the server sent", async () => {
    const error = new BerthError("auth.required", "no token", { details: { a: 1 } })
    const failed = createClient({ url: await answer(401, error.toJSON()) }).status()
    await expect(failed).rejects.toBeInstanceOf(BerthError)
    await expect(failed).rejects.toMatchObject(error.toJSON())
  })

  it("passes on an error that only a newer server knows", async () => {
    const url = await answer(418, {
      code: "tea.pot",
      message: "short and stout",
      details: { a: 1 },
    })
    await expect(createClient({ url }).health()).rejects.toMatchObject({
      code: "server.reply_invalid",
      message: "the server says: short and stout",
      details: { a: 1, status: 418, code: "tea.pot" },
    })
  })

  it.each([
    [200, "<html>"],
    [200, {}],
    [200, { ...HEALTH, pid: "7" }],
    [404, "<html>"],
    [500, { code: 5 }],
    [502, "null"],
  ])("refuses a reply that is not Berth's: %i %j", async (status, body) => {
    const url = await answer(status, body)
    await expect(createClient({ url }).health()).rejects.toMatchObject({
      code: "server.reply_invalid",
      details: { url, status },
    })
  })

  it.each([301, 302, 303, 307, 308])("follows no redirect with status %i", async (redirect) => {
    let followed = false
    const other = await serve((_, reply) => {
      followed = true
      reply.end(JSON.stringify(STATUS))
    })
    const url = await serve((_, reply) => {
      reply.writeHead(redirect, { location: `${other}/v1/status` }).end()
    })
    await expect(createClient({ url, token: "abc" }).status()).rejects.toBeInstanceOf(BerthError)
    expect(followed).toBe(false)
  })

  it("reports a server that does not listen as unreachable", async () => {
    const url = await answer(200, HEALTH)
    await cleanUp.pop()?.()
    await expect(createClient({ url }).health()).rejects.toMatchObject({
      code: "server.unreachable",
      details: { url, reason: "ECONNREFUSED" },
    })
  })

  it("gives up at the deadline, before the reply and in the middle of it", async () => {
    const silent = await serve(() => {})
    const stuck = await serve((_, reply) => void reply.write("{"))
    for (const url of [silent, stuck]) {
      const call = createClient({ url, deadlineMs: 60_000 }).health({ deadlineMs: 50 })
      await expect(call).rejects.toMatchObject({
        code: "deadline.exceeded",
        details: { deadlineMs: 50 },
      })
    }
  })

  it("is cancelled by its caller, also before it begins", async () => {
    const arrived = Promise.withResolvers<void>()
    const url = await serve(() => arrived.resolve())
    const abort = new AbortController()
    const call = createClient({ url }).health({ signal: abort.signal })
    const cancelled = expect(call).rejects.toMatchObject({ code: "cancelled" })
    await arrived.promise
    abort.abort()
    await cancelled
    await expect(createClient({ url }).health({ signal: abort.signal })).rejects.toMatchObject({
      code: "cancelled",
    })
  })

  it("needs nothing that a browser lacks", async () => {
    const { outputFiles } = await build({
      entryPoints: [new URL("client.ts", import.meta.url).pathname],
      bundle: true,
      write: false,
      platform: "browser",
      format: "iife",
      globalName: "berth",
      conditions: ["source"],
    })
    const web = {
      fetch,
      URL,
      AbortSignal,
      AbortController,
      crypto,
      TextEncoder,
      setTimeout,
      clearTimeout,
      ReadableStream,
      WebSocket,
    }
    const page = createContext({ ...web, url: await answer(200, HEALTH) })
    runInContext(outputFiles[0]?.text ?? "", page)
    expect(await runInContext("berth.createClient({ url }).health()", page)).toMatchObject(HEALTH)
  })
})
