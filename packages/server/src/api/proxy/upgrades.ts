import type { IncomingMessage } from "node:http"
import { performance } from "node:perf_hooks"
import type { Duplex } from "node:stream"
import { BerthError, toWireError } from "@berth/protocol/errors"
import type { SocketRefusal } from "@berth/protocol/sandboxes"
import type { FastifyInstance } from "fastify"
import type { Logger } from "../../logging/logger.ts"
import { type Outcome, writeOperation } from "../../logging/operation.ts"
import type { Use } from "../../sandboxes/requests/use.ts"
import type { Sandboxes } from "../../sandboxes/sandboxes.ts"
import { tokenCheck } from "../authorize.ts"
import { isLocalName, isLocalOrigin } from "../local-name.ts"
import { conversationAt } from "./conversations.ts"
import { accept, type Handshake, readHandshake, refuse } from "./handshake.ts"
import { join } from "./join.ts"
import { leaseRequestOf } from "./lease-requests.ts"
import { ParsingShares } from "./parsing-shares.ts"
import { openSocket } from "./pass-socket.ts"
import { type Target, targetOf } from "./target.ts"

export interface UpgradeOptions {
  readonly log: Logger
  readonly token: string
  readonly provide: () => Promise<Pick<Sandboxes, "running" | "use">>
}

/** Passes WebSockets to sandboxes. They are closed when the server stops: open ones would hold up its end. */
export const passUpgrades = (
  api: FastifyInstance,
  { log, token, provide }: UpgradeOptions,
): void => {
  const check = tokenCheck(token)
  const stopping = new AbortController()
  const open = new Set<Duplex>()
  const shares = new ParsingShares()
  api.addHook("preClose", async () => {
    stopping.abort(new BerthError("server.stopping", "the server is stopping"))
    for (const socket of open) socket.destroy()
  })

  const pass = async (request: IncomingMessage, client: Duplex, head: Buffer): Promise<Passed> => {
    let handshake: Handshake | undefined
    let target: Target | undefined
    let use: Use | undefined
    const gone = new AbortController()
    const onClose = () => gone.abort(new BerthError("cancelled", "whoever asked is gone"))
    client.once("close", onClose)
    try {
      stopping.signal.throwIfAborted()
      requireLocal(request)
      handshake = readHandshake(request)
      check(handshake.token)
      target = targetOf(request.url ?? "")
      const conversation = target && conversationAt(target.path)
      if (target === undefined || conversation === undefined)
        throw new BerthError("route.unknown", "there is no such WebSocket of a sandbox")
      const signal = AbortSignal.any([gone.signal, stopping.signal])
      const sandboxes = await provide()
      const begun = await sandboxes.use.begin(
        target.sandbox,
        leaseRequestOf(target.feature),
        signal,
      )
      use = begun
      const wanted = { path: target.path, key: handshake.key }
      const sandbox = await openSocket(sandboxes, begun, wanted, signal)
      accept(client, handshake, begun.sandbox)
      if (head.length > 0) client.unshift(head)
      using share = shares.take(begun.sandbox)
      const joined = join(client, sandbox, { conversation, parsing: share.parsing })
      for (const side of [client, sandbox]) side.on("data", () => begun.renew())
      const failure = await joined
      return { target, outcome: failure ? "failed" : "ok", ...(failure && { code: failure.code }) }
    } catch (thrown) {
      const refusal = refusalOf(thrown)
      refuse(client, refusal, handshake)
      const outcome = refusal.said.code === "cancelled" ? "cancelled" : "failed"
      return { target, outcome, code: refusal.said.code, err: refusal.status >= 500 && thrown }
    } finally {
      await use?.end()
    }
  }

  api.server.on("upgrade", (request: IncomingMessage, client: Duplex, head: Buffer) => {
    const startedMs = performance.now()
    open.add(client)
    client.on("error", () => client.destroy())
    client.once("close", () => open.delete(client))
    const write = ({ target, outcome, code, err }: Passed) => {
      const { sandbox, feature } = target ?? {}
      writeOperation(log, err ? "error" : "info", {
        op: "socket.pass",
        outcome,
        durationMs: performance.now() - startedMs,
        sandbox,
        // The rest of the path is not logged: a path or a query may hold anything.
        feature,
        code,
        ...(err ? { err } : {}),
      })
    }
    void pass(request, client, head).then(write, (err) => {
      client.destroy()
      write({ target: undefined, outcome: "failed", code: "internal", err })
    })
  })
}

interface Passed {
  readonly target: Target | undefined
  readonly outcome: Outcome
  readonly code?: string
  readonly err?: unknown
}

const requireLocal = ({ headers: { host, origin } }: IncomingMessage): void => {
  if (isLocalName(host) && isLocalOrigin(origin)) return
  throw new BerthError("auth.host_refused", "the request is not from or not for this machine")
}

const refusalOf = (thrown: unknown): { status: number; said: SocketRefusal["error"] } => {
  const status = thrown instanceof BerthError ? thrown.status : 500
  return { status, said: toWireError(thrown) }
}
