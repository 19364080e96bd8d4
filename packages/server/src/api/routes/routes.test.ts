import { BerthError } from "@berth/protocol/errors"
import { newId } from "@berth/protocol/ids"
import { MAX_HOLD_MS } from "@berth/protocol/sandboxes"
import Fastify from "fastify"
import { describe, expect, it, onTestFinished, vi } from "vitest"
import type { Sandboxes } from "../../sandboxes/sandboxes.ts"
import { berthErrorOf } from "../errors.ts"
import { forkRoute } from "./fork.ts"
import { holdRoutes } from "./holds.ts"
import { reconcileRoute } from "./reconcile.ts"
import { sandboxRoutes } from "./sandboxes.ts"
import { workspaceRoute } from "./workspaces.ts"

const SANDBOX = newId.sandbox()
const LEASE = newId.lease()

/** The routes in front of sandboxes that only record their calls. */
const open = () => {
  const asked: unknown[] = []
  const told =
    (name: string, answer?: unknown) =>
    async (...given: unknown[]) => {
      asked.push([name, ...given.filter((each) => !(each instanceof AbortSignal))])
      if (answer instanceof Error) throw answer
      return answer
    }
  const draining = new BerthError("workspace.draining", "app waits for somebody")
  const sandboxes = {
    requests: {
      stop: told("stop"),
      remove: told("remove"),
      hold: told("hold", { id: LEASE }),
      release: told("release"),
    },
    workspaces: { up: told("up", draining), get: told("workspace", { slug: "app" }) },
    views: { why: told("why", { decisions: [] }) },
    reconcile: told("reconcile", { sandboxes: [] }),
  } as unknown as Sandboxes
  const api = Fastify({ logger: false })
  api.setErrorHandler((thrown, _request, reply) => {
    const error = berthErrorOf(thrown, undefined)
    return reply.code(error.status).send(error.toJSON())
  })
  for (const add of [sandboxRoutes, holdRoutes, reconcileRoute, workspaceRoute])
    add(api, async () => sandboxes)
  const call = async (method: "GET" | "POST" | "DELETE", url: string, payload?: object) => {
    const { statusCode, body } = await api.inject({ method, url, ...(payload && { payload }) })
    return { status: statusCode, body: body === "" ? undefined : JSON.parse(body) }
  }
  return { asked, call }
}

const at = (path: string) => `/v1/sandboxes/${SANDBOX}${path}`

describe("the API of sandboxes", () => {
  it("places and releases a hold", async () => {
    const { asked, call } = open()
    const hold = { holder: "me", forMs: MAX_HOLD_MS }
    expect(await call("POST", at("/holds"), hold)).toEqual({ status: 201, body: { id: LEASE } })
    expect(await call("DELETE", at(`/holds/${LEASE}`))).toEqual({ status: 204, body: undefined })
    expect(asked).toEqual([
      ["hold", SANDBOX, hold],
      ["release", SANDBOX, LEASE],
    ])
  })

  it.each([
    {},
    { holder: "" },
    { holder: "me", forMs: 999 },
    { holder: "me", forMs: MAX_HOLD_MS + 1 },
    { holder: "me", until: "noon" },
  ])("refuses the hold %j", async (hold) => {
    const { asked, call } = open()
    expect(await call("POST", at("/holds"), hold)).toMatchObject({
      status: 400,
      body: { code: "input.invalid" },
    })
    expect(asked).toEqual([])
  })

  it("answers 404 to an id of the wrong form", async () => {
    const { asked, call } = open()
    expect(await call("DELETE", at("/holds/x"))).toMatchObject({ status: 404 })
    expect(await call("GET", "/v1/sandboxes/x/why")).toMatchObject({ status: 404 })
    expect(await call("POST", "/v1/sandboxes/x/stop")).toMatchObject({ status: 404 })
    expect(asked).toEqual([])
  })

  it("shows a workspace, and answers 404 to a name that is no slug", async () => {
    const { asked, call } = open()
    expect(await call("GET", "/v1/workspaces/app")).toEqual({ status: 200, body: { slug: "app" } })
    expect(await call("GET", "/v1/workspaces/No")).toMatchObject({ status: 404 })
    expect(asked).toEqual([["workspace", "app"]])
  })

  it("stops and removes without force, and reconciles for real, unless the request says otherwise", async () => {
    const { asked, call } = open()
    for (const body of [undefined, {}, { force: true }])
      expect(await call("POST", at("/stop"), body)).toMatchObject({ status: 204 })
    for (const query of ["", "?force=true"])
      expect(await call("DELETE", at(query))).toMatchObject({ status: 204 })
    for (const body of [undefined, { dryRun: true }])
      expect(await call("POST", "/v1/reconcile", body)).toMatchObject({ status: 200 })
    expect(asked).toEqual([
      ["stop", SANDBOX, { force: false }],
      ["stop", SANDBOX, { force: false }],
      ["stop", SANDBOX, { force: true }],
      ["remove", SANDBOX, { force: false }],
      ["remove", SANDBOX, { force: true }],
      ["reconcile", { dryRun: false }],
      ["reconcile", { dryRun: true }],
    ])
  })

  it("passes on how long to wait for a draining sandbox, and refuses to wait longer than 25 s", async () => {
    const { asked, call } = open()
    const body = { workspace: { slug: "app" } }
    expect(await call("POST", "/v1/sandboxes?wait=500", body)).toMatchObject({
      status: 409,
      body: { code: "workspace.draining", retry: "later" },
    })
    expect(asked).toMatchObject([["up", { slug: "app" }, { mode: "fresh", waitMs: 500 }]])
    expect(await call("POST", "/v1/sandboxes?wait=25001", body)).toMatchObject({ status: 400 })
  })
})

describe("a fork", () => {
  const VIEW = { identity: { sandbox: SANDBOX } }
  const taken = new BerthError("workspace.exists", "there is a workspace copy already")
  const PROGRESS = { stage: "copying", files: 5, of: 7 } as const

  /** The route's answer when sandboxes are forked by this function. */
  const forked = async (fork: Sandboxes["copies"]["fork"]) => {
    const api = Fastify({ logger: false })
    forkRoute(
      api,
      async () => ({ copies: { fork }, views: { get: async () => VIEW } }) as unknown as Sandboxes,
    )
    const { statusCode, headers, body } = await api.inject({
      method: "POST",
      url: at("/fork"),
      payload: { to: "copy" },
    })
    const lines = body
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line))
    return { status: statusCode, type: headers["content-type"], lines }
  }

  it("answers with how long the sandbox stood still", async () => {
    const ensured = { sandbox: SANDBOX, made: true, frozenMs: 12.3 }
    expect(await forked(async () => ensured as never)).toEqual({
      status: 200,
      type: "application/x-ndjson",
      lines: [{ type: "forked", sandbox: VIEW, stoodStillMs: 12 }],
    })
  })

  it("answers a refusal with the error and its status", async () => {
    const refusal = await forked(() => Promise.reject(taken))
    expect(refusal).toMatchObject({ status: 409, lines: [{ code: "workspace.exists" }] })
  })

  it("reports its progress, and then why it failed", async () => {
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] })
    onTestFinished(() => void vi.useRealTimers())
    const { lines } = await forked(async (_sandbox, _to, { onProgress }) => {
      onProgress({ ...PROGRESS, files: 1 })
      onProgress(PROGRESS)
      vi.advanceTimersByTime(250)
      throw taken
    })
    expect(lines).toMatchObject([
      { type: "progress", ...PROGRESS },
      { type: "failed", code: "workspace.exists", message: taken.message },
    ])
  })
})
