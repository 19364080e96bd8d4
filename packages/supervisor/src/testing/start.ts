import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { mkdirSync, mkdtempSync, rmSync, watch, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { BootTrace } from "@berth/protocol/boot"
import { BootPlan } from "@berth/protocol/boot-plan"
import { newId } from "@berth/protocol/ids"
import { SHARED } from "@berth/protocol/shared-directory"
import { onTestFinished } from "vitest"
import { AUTHORIZED, connect, get, helloTo, TOKEN } from "../bridge/testing/supervisor.ts"
import { Family } from "../processes/testing/family.ts"

const PROGRAM = join(import.meta.dirname, "program.ts")

/** Makes a sandbox's directories, in a directory of the test. */
export const makePlaces = () => {
  const root = mkdtempSync(join(tmpdir(), "berth-supervise-"))
  const family = new Family()
  onTestFinished(() => {
    family.killAll()
    rmSync(root, { recursive: true, force: true })
  })
  const places = {
    workspace: join(root, "workspace"),
    home: join(root, "home"),
    toolbox: join(root, "toolbox"),
    logs: join(root, "logs"),
  }
  const shared = join(root, "shared")
  for (const directory of [shared, places.workspace, places.home, places.toolbox])
    mkdirSync(directory)
  return { root, places, shared, family }
}

type PlanInput = Partial<(typeof BootPlan)["_zod"]["input"]>

/** Starts a supervisor under tini, as in a sandbox. With `isHurried` it gives up failing processes in half a second. */
export const start = (
  plan: PlanInput = {},
  made = makePlaces(),
  { spoil = (plan: BootPlan): unknown => plan, isHurried = false } = {},
) => {
  const { places, shared, family } = made
  const told = BootPlan.parse({
    sandbox: newId.sandbox(),
    mode: "fresh",
    repos: [],
    hooks: {},
    sidecars: [],
    agent: { kind: "shell" },
    ...plan,
    environment: { ...family.env, ...plan.environment },
  })
  writeFileSync(join(shared, SHARED.token), TOKEN, { mode: 0o600 })
  writeFileSync(join(shared, SHARED.plan), JSON.stringify(spoil(told)))
  const user = { name: "agent", uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 }
  const credentials = join(made.root, "git/credentials.sock")
  const certificates = join(made.root, "certificates")
  const watcher = watch(shared)
  const command = [
    "--conditions=source",
    PROGRAM,
    JSON.stringify({ shared, places, credentials, certificates, user, isHurried }),
  ]
  const child = spawn("tini", ["-s", "--", process.execPath, ...command], {
    env: { ...process.env, ...family.env },
    stdio: ["ignore", "inherit", "pipe"],
  })
  let stderr = ""
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text
  })
  const ended = once(child, "close").then(([status, signal]) => ({ status, signal }))
  onTestFinished(() => watcher.close())
  const socket = join(shared, SHARED.socket)
  const answers = async () => {
    for await (const _ of changes(watcher, child)) {
      const reply = await get(socket, "/health").catch(() => undefined)
      if (reply?.status === 200) return JSON.parse(reply.body)
    }
    throw new Error(`the supervisor ended: ${JSON.stringify(await ended)} ${stderr}`)
  }
  const trace = async () => BootTrace.parse(JSON.parse((await get(socket, "/boot")).body))
  const bridge = async (lastSeen = 0) => {
    const client = connect(socket, AUTHORIZED)
    await client.opened
    // Acknowledged at once, so that the supervisor need not wait for it at its end.
    client.websocket.on("message", () => {
      const upTo = Math.max(0, ...client.numbers())
      if (upTo > lastSeen) client.say({ type: "acknowledge", upTo })
    })
    client.say(helloTo(told.sandbox, lastSeen))
    return client
  }
  return { ...made, plan: told, child, ended, socket, answers, trace, bridge, errors: () => stderr }
}

/** Yields once at the start, and whenever the directory changes, until the process has ended. */
async function* changes(watcher: ReturnType<typeof watch>, child: ChildProcess) {
  const over = new AbortController()
  child.once("close", () => over.abort())
  while (!over.signal.aborted) {
    yield
    await once(watcher, "change", { signal: over.signal }).catch(() => {})
  }
}
