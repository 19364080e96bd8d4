import { spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync, mkdirSync, mkdtempSync, rmSync, watch, writeFileSync } from "node:fs"
import { request } from "node:http"
import type { Socket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import type { BootEvent } from "@berth/protocol/boot"
import { BootPlan } from "@berth/protocol/boot-plan"
import { PROTOCOL_GENERATION } from "@berth/protocol/bridge-limits"
import { newId } from "@berth/protocol/ids"
import { SUPERVISOR_FLAGS } from "@berth/protocol/inside"
import { SHARED } from "@berth/protocol/shared-directory"

const PROGRAM = fileURLToPath(new URL("run-once.ts", import.meta.url))

/** A boot without repos takes a fraction of a second. */
const DEADLINE_MS = 60_000

const READY: BootEvent["type"] = "boot.ready"

/**
 * Makes the compiled code of the supervisor's bundles: boots it at places of its own, and calls it as a server does.
 * Node's compile cache would hold none of the functions that run after a bundle was loaded.
 */
export const compileSupervisor = async (main: string): Promise<void> => {
  const base = mkdtempSync(join(tmpdir(), "berth-compile-"))
  const signal = AbortSignal.timeout(DEADLINE_MS)
  const { shared, sandbox, token, options } = prepare(base)
  const args = [...SUPERVISOR_FLAGS, PROGRAM, main, JSON.stringify(options)]
  const child = spawn(process.execPath, args, { stdio: ["pipe", "ignore", "inherit"] })
  const ended = once(child, "exit")
  try {
    const failed = ended.then(([status, by]) => {
      throw new Error(`the supervisor ended before it was compiled: ${status ?? by}`)
    })
    const socketPath = join(shared, SHARED.socket)
    await Promise.race([useAsServer({ shared, socketPath, sandbox, token, signal }), failed])
    child.stdin.end("compile")
    await ended
  } finally {
    child.kill("SIGKILL")
    await ended
    rmSync(base, { recursive: true, force: true })
  }
}

/** Writes what a server writes for a sandbox. */
const prepare = (base: string) => {
  const shared = join(base, "shared")
  mkdirSync(shared)
  const token = crypto.randomUUID()
  writeFileSync(join(shared, SHARED.token), token, { mode: 0o600 })
  const plan = BootPlan.parse({
    sandbox: newId.sandbox(),
    mode: "fresh",
    repos: [],
    hooks: {},
    environment: {},
    agent: { kind: "shell" },
    sidecars: [],
  })
  writeFileSync(join(shared, SHARED.plan), JSON.stringify(plan))
  const options = {
    shared,
    port: 0,
    places: { workspace: base, home: base, toolbox: base, logs: join(base, "logs") },
    credentials: join(base, "git", "credentials.sock"),
    certificates: join(base, "certificates"),
    user: { name: "agent", uid: process.getuid?.(), gid: process.getgid?.() },
  }
  return { shared, sandbox: plan.sandbox, token, options }
}

interface Use {
  readonly shared: string
  readonly socketPath: string
  readonly sandbox: string
  readonly token: string
  readonly signal: AbortSignal
}

/** Calls what a server calls of every sandbox, until it is ready. */
const useAsServer = async ({ shared, socketPath, sandbox, token, signal }: Use): Promise<void> => {
  const watcher = watch(shared)
  // The socket exists a moment before it takes connections; the boot is traced when it does.
  while (!existsSync(join(shared, SHARED.trace))) await once(watcher, "change", { signal })
  watcher.close()
  const ask = (path: string, headers: Record<string, string> = {}) =>
    request({
      socketPath,
      path,
      headers: { authorization: `Bearer ${token}`, ...headers },
      agent: false,
      signal,
    }).end()

  const [health] = await once(ask("/health"), "response")
  health.resume()
  const upgrade = {
    connection: "upgrade",
    upgrade: "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": Buffer.alloc(16).toString("base64"),
  }
  const socket: Socket = (await once(ask("/bridge", upgrade), "upgrade"))[1]
  socket.write(frame({ type: "hello", generation: PROTOCOL_GENERATION, sandbox, lastSeen: 0 }))
  let said = ""
  for await (const bytes of socket) {
    said += bytes.toString("latin1")
    if (said.includes(READY)) break
  }
  socket.write(frame({ type: "acknowledge", upTo: 1 }))
  const [activity] = await once(ask("/activity"), "response")
  activity.resume()
}

/** A message as a frame of a WebSocket with an empty mask, which has room for 125 bytes. */
const frame = (message: object): Buffer => {
  const text = Buffer.from(JSON.stringify(message))
  return Buffer.concat([Buffer.from([0x81, 0x80 + text.length, 0, 0, 0, 0]), text])
}
