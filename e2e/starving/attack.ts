import { spawn } from "node:child_process"
import { once } from "node:events"
import { connect, type Socket } from "node:net"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { setTimeout as pause } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import type { StarvingAttack } from "@berth/bridge/testing/starving-attacks"
import type { SandboxId } from "@berth/protocol/ids"
import type { Session } from "@berth/sdk/sessions"
import { findSharedDirectories } from "@berth/server/sandboxes/state/shared-directories"
import { openHealthQueries } from "@berth/testing/health-sample"
import { processesOf } from "../boot/stage.ts"
import { openServer } from "../sandboxes/server.ts"

const HOSTILE = fileURLToPath(import.meta.resolve("@berth/bridge/testing/starving"))

const ATTACKS: readonly StarvingAttack[] = ["empty", "crowded", "hints"]
const STREAMS = 300
const WARM_STREAMS = 100
const FLOODED_EVENTS = 400

/** Writes lines as fast as they are read, for longer than any test looks. */
const FLOOD = `timeout 600 perl -e 'my $line = ("x" x 2000) . "\\n"; print $line while 1'`

/** A pause between two requests of a client, so that it does not keep a core busy itself. */
const PAUSE_MS = 20

/**
 * A server with everything against it that costs it time: sandboxes whose supervisors are hostile, a prompt that writes
 * without end, a client who asks a hostile sandbox again and again, and one who opens event streams and reads none.
 */
export const openAttackedServer = async () => {
  const server = await openServer(["--log-level", "fatal"])
  const ends: (() => unknown)[] = [server.close]
  const close = async () => {
    for (const end of ends.splice(0).reverse()) await end()
  }
  try {
    const session = await openSession(server)
    const sandboxes = await Promise.all(
      ATTACKS.map(async (attack) => {
        const workspace = { slug: attack, network: { kind: "none" as const } }
        const sandbox = await server.client().sandboxes.create({ workspace })
        await sandbox.ready({})
        return { attack, id: sandbox.id }
      }),
    )
    // A server that starts finds the hostile supervisors in the place of the others, which would listen again.
    await server.kill()
    const signalAll = (signal: NodeJS.Signals) => {
      for (const { id } of sandboxes)
        for (const { pid } of processesOf(id)) process.kill(pid, signal)
    }
    signalAll("SIGSTOP")
    ends.push(() => signalAll("SIGCONT"))
    const hostile = await startHostile(server.dataDir, sandboxes)
    ends.push(hostile.kill)
    await server.restart()
    const health = openHealthQueries(server.access().url, server.pid())
    ends.push(health.close)
    // The start is over when this is answered.
    await server.client().sandboxes.list()
    await warmUp(server, session.id)
    await health.query(500)

    const attack = async () => {
      const stop = new AbortController()
      const target = sandboxes.find((one) => one.attack === "hints")?.id ?? ""
      const { signal } = stop
      const asking = askOn(() => server.sandbox(target).commands.run(["true"], { signal }), signal)
      ends.push(() => {
        stop.abort()
        return asking
      })
      await flood(server.client().sessions.at(session.id))
      const sockets = Array.from({ length: STREAMS }, () => openUnread(server.access(), session.id))
      ends.push(() => sockets.map((socket) => socket.destroy()))
    }
    return {
      attack,
      close,
      pid: server.pid,
      query: health.query,
      begun: hostile.begun,
      events: async () => (await server.client().sessions.at(session.id).get({})).lastEvent,
    }
  } catch (thrown) {
    await close()
    throw thrown
  }
}

/** Starts a flood of events, and resolves when there are many: streams that begin then have all of them to send. */
const flood = async (session: Session): Promise<void> => {
  const { lastEvent: after } = await session.get({})
  await session.prompt(FLOOD)
  for await (const { sequence } of session.events({ after }))
    if (sequence > after + FLOODED_EVENTS) return
}

type Server = Awaited<ReturnType<typeof openServer>>

const openSession = async (server: Server): Promise<Session> => {
  const workspace = { slug: "flood", network: { kind: "none" as const } }
  const session = await server.client().sessions.create({ workspace })
  await session.prompt("true")
  for await (const { body } of session.events({ after: 0 }))
    if (body.type === "prompt.state" && body.state === "succeeded") break
  return session
}

const startHostile = async (
  dataDir: string,
  sandboxes: readonly { readonly attack: StarvingAttack; readonly id: SandboxId }[],
) => {
  const sharedDirectories = findSharedDirectories(join(dataDir, "shared"))
  const args: string[] = []
  for (const { attack, id } of sandboxes) {
    const shared = await sharedDirectories.find(id)
    if (shared === undefined) throw new Error(`${id} has no shared directory`)
    args.push(shared.socket, id, attack)
  }
  const child = spawn(process.execPath, ["--conditions=source", HOSTILE, ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  })
  const begun = new Set<string>()
  const lines = createInterface({ input: child.stdout }).on("line", (line) => begun.add(line))
  const ended = once(child, "exit")
  const died = ended.then(() => Promise.reject(new Error("the hostile sandboxes cannot be played")))
  died.catch(() => {})
  await Promise.race([once(lines, "line"), died])
  const kill = async () => {
    child.kill("SIGKILL")
    await ended
  }
  return { begun, kill }
}

/**
 * Opens streams until the server's code for them is compiled, so that the attack meets a server that has been up for a
 * while.
 */
const warmUp = async (server: Server, session: string): Promise<void> => {
  for (let count = 0; count < WARM_STREAMS; count++) {
    const socket = openUnread(server.access(), session)
    await once(socket, "readable")
    socket.destroy()
  }
}

/** Makes a call again and again, whatever its outcome. */
const askOn = async (ask: () => Promise<unknown>, signal: AbortSignal): Promise<void> => {
  while (!signal.aborted) {
    await ask().catch(() => {})
    await pause(PAUSE_MS, undefined, { signal }).catch(() => {})
  }
}

const openUnread = ({ url, token }: { url: string; token: string }, session: string): Socket => {
  const { hostname, port, host } = new URL(url)
  const socket = connect(Number(port), hostname)
  socket.on("error", () => {}).pause()
  socket.write(
    [
      `GET /v1/sessions/${session}/events HTTP/1.1`,
      `Host: ${host}`,
      `Authorization: Bearer ${token}`,
      "\r\n",
    ].join("\r\n"),
  )
  return socket
}
