import { once } from "node:events"
import { type IncomingMessage, request } from "node:http"
import { text } from "node:stream/consumers"
import { BerthError } from "@berth/protocol/errors"
import type { FormOf } from "@berth/protocol/form"
import { describe, expect, it } from "vitest"
import { AUTHORIZED, get, serve } from "../bridge/testing/supervisor.ts"
import { readJson, sendJson } from "./body.ts"
import { Dispatch } from "./dispatch.ts"
import type { Feature } from "./feature.ts"
import { matchPath } from "./match-path.ts"

const HELLO: FormOf<{ say: "hello" }> = {
  kind: "object",
  required: { say: { kind: "value", values: ["hello"] } },
  optional: {},
}

const echo = (log: string[] = []): Feature => ({
  http: [
    {
      method: "GET",
      path: "/echo/:word",
      handle: async ({ params, query, response }) =>
        sendJson(response, 200, { ...params, ...Object.fromEntries(query) }),
    },
    {
      method: "POST",
      path: "/echo",
      handle: async ({ request, response }) =>
        sendJson(response, 201, await readJson(request, HELLO)),
    },
    {
      method: "GET",
      path: "/echo/begun/and-failed",
      handle: async ({ response }) => {
        response.writeHead(200, { "content-length": "10" }).write("half")
        throw new Error("then it broke")
      },
    },
    {
      method: "GET",
      path: "/echo/wait/for-ever",
      handle: ({ signal }) =>
        new Promise((_, reject) => {
          log.push("waits")
          signal.addEventListener("abort", () => {
            log.push(String(signal.reason.message))
            reject(signal.reason)
          })
        }),
    },
  ],
  sockets: [
    {
      path: "/echo/:word/live",
      open: async ({ params }) => {
        if (params.word === "no") throw new BerthError("not_found", "there is no such word")
        return (websocket) => websocket.send(params.word ?? "")
      },
    },
  ],
  close: async () => void log.push("closed"),
})

const open = async (feature = echo()) => {
  let loads = 0
  const features = new Dispatch({
    echo: async () => {
      loads++
      return feature
    },
  })
  return { ...(await serve({ features })), features, loads: () => loads }
}

describe("features", () => {
  it("are loaded when they are first called, once, and answer by their routes", async () => {
    const { path, loads } = await open()
    expect(loads()).toBe(0)
    expect(await get(path, "/echo/h%C3%A9?x=1")).toEqual({
      status: 200,
      body: '{"word":"hé","x":"1"}',
    })
    await get(path, "/echo/again")
    expect(loads()).toBe(1)
  })

  it.each(["/echoes", "/echo/a/b", "/echo/%zz", "/echo/", "/", "/constructor", "/../echo/x"])(
    "do not answer %s",
    async (url) => {
      const { path } = await open()
      expect(await get(path, url)).toMatchObject({ status: 404 })
    },
  )

  it("refuse a client without the token, and are not loaded for it", async () => {
    const { path, loads } = await open()
    expect(await get(path, "/echo/a", { headers: {} })).toMatchObject({ status: 401 })
    expect(loads()).toBe(0)
  })

  it("refuse a body of the wrong form, and cut off an answer that cannot be finished", async () => {
    const { path } = await open()
    expect(await get(path, "/echo", { method: "POST" })).toMatchObject({
      status: 400,
      body: expect.stringContaining("not JSON"),
    })
    await expect(get(path, "/echo/begun/and-failed")).rejects.toThrow()
  })

  it("are told when the client is gone, and when the sandbox goes down", async () => {
    const log: string[] = []
    const { path, features } = await open(echo(log))
    const gone = request({
      socketPath: path,
      path: "/echo/wait/for-ever",
      headers: AUTHORIZED,
      agent: false,
    })
    gone.on("error", () => {}).end()
    await expect.poll(() => log).toEqual(["waits"])
    gone.destroy()
    await expect.poll(() => log).toEqual(["waits", expect.any(String)])
    log.length = 0
    const waiting = get(path, "/echo/wait/for-ever").catch(() => {})
    await expect.poll(() => log).toEqual(["waits"])
    await Promise.all([features.close(), features.close()])
    await waiting
    expect(log).toEqual(["waits", "the sandbox is going down", "closed"])
    expect(await get(path, "/echo/a")).toMatchObject({ status: 404 })
  })

  it("answer a request whose body is not read, or is too large", async () => {
    const { path } = await open()
    const say = async (url: string, bytes: number) => {
      const sent = request({
        socketPath: path,
        method: "POST",
        path: url,
        headers: AUTHORIZED,
        agent: false,
      })
      const answered = once(sent, "response")
      for (let left = bytes; left > 0; left -= 65_536)
        if (!sent.write(Buffer.alloc(65_536, " "))) await once(sent, "drain")
      sent.end()
      const [answer] = (await answered) as [IncomingMessage]
      return { status: answer.statusCode, code: JSON.parse(await text(answer)).code }
    }
    expect(await say("/echo/no/such", 8_000_000)).toEqual({ status: 404, code: "route.unknown" })
    expect(await say("/echo", 8_000_000)).toEqual({ status: 413, code: "input.too_large" })
  })

  it("take WebSockets, or refuse them with a status", async () => {
    const { path } = await open()
    const { WebSocket } = await import("ws")
    const refusal = (url: string) =>
      new Promise((resolve) => {
        const socket = new WebSocket(`ws+unix://${path}:${url}`, { headers: AUTHORIZED })
        socket.on("unexpected-response", (_, response) => resolve(response.statusCode))
        socket.on("message", (data) => {
          resolve(String(data))
          socket.close()
        })
        socket.on("error", () => {})
      })
    expect(await refusal("/echo/yes/live")).toBe("yes")
    expect(await refusal("/echo/no/live")).toBe(404)
    expect(await refusal("/echo/yes")).toBe(404)
    expect(await refusal("/else")).toBe(404)
  })
})

it.each([
  ["/a/:b", "/a/c", { b: "c" }],
  ["/a/:b/c/:d", "/a/1/c/2%2F3", { b: "1", d: "2/3" }],
  ["/a", "/a/", undefined],
  ["/a/:b", "/a/", undefined],
])("a pattern %s is matched with the path %s", (pattern, path, params) => {
  expect(matchPath(pattern, path)).toEqual(params)
})
