import { rmSync } from "node:fs"
import { join } from "node:path"
import type { Event } from "@berth/protocol/event"
import type { PromptId } from "@berth/protocol/ids"
import { SHARED } from "@berth/protocol/shared-directory"
import type { Sandbox } from "@berth/sdk/sandboxes"
import { sampledCases } from "@berth/testing/sampled-cases"
import { expect, onTestFinished } from "vitest"
import { findInside, type Inside, kill } from "./inside.ts"
import { insist } from "./insist.ts"
import { Nap, startedAs } from "./naps.ts"
import type { World } from "./world.ts"

/** A boot on a busy machine, a stop, and what follows. */
const ROUND_MS = 120_000

interface Struck {
  readonly world: World
  readonly sandbox: Sandbox
  readonly inside: Inside
  /** Stops the prompt; resolves when it has ended. */
  readonly stop: () => Promise<void>
}

interface Mishap {
  /** Stops the prompt, and does to its sandbox and the server what happens to them meanwhile. */
  readonly strike: (struck: Struck) => Promise<void>
  /** Whether the sandbox says the rest of what the prompt said, and takes the next one. */
  readonly isHeardAgain: boolean
}

/** The supervisor stands still, and the server dies there on its way to the prompt's end. */
const dyingAt = (step: string): Mishap => ({
  strike: async ({ world, inside, stop }) => {
    kill(inside.supervisor, "SIGSTOP")
    world.dieAt(step)
    const stopped = stop()
    await world.death()
    await world.start()
    await stopped
    kill(inside.supervisor, "SIGCONT")
  },
  isHeardAgain: true,
})

const MISHAPS: Readonly<Record<string, Mishap>> = {
  "the supervisor stands still for a while": {
    strike: async ({ inside, stop }) => {
      kill(inside.supervisor, "SIGSTOP")
      await stop()
      kill(inside.supervisor, "SIGCONT")
    },
    isHeardAgain: true,
  },
  "the server dies when it has noted that the stop is overdue": dyingAt("stop.overdue"),
  "the server dies when it has ended the processes": dyingAt("stop.enforced"),
  "the server dies when the prompt has ended": dyingAt("stop.ended"),
  "the server is killed twice while the prompt is not confirmed": {
    strike: async ({ world, inside, stop }) => {
      kill(inside.supervisor, "SIGSTOP")
      await stop()
      await world.restart()
      await world.restart()
      kill(inside.supervisor, "SIGCONT")
    },
    isHeardAgain: true,
  },
  "the supervisor's socket is deleted, and the server killed": {
    strike: async ({ world, sandbox, stop }) => {
      await world.kill()
      rmSync(join(world.dataDir, "shared", sandbox.id, "inside", SHARED.socket))
      await world.start()
      await stop()
    },
    isHeardAgain: true,
  },
  "the supervisor is killed while the prompt is not confirmed": {
    strike: async ({ inside, stop }) => {
      kill(inside.supervisor, "SIGSTOP")
      await stop()
      kill(inside.supervisor, "SIGKILL")
    },
    isHeardAgain: false,
  },
  "the server is killed, and the sandbox while it is down": {
    strike: async ({ world, inside, stop }) => {
      kill(inside.supervisor, "SIGSTOP")
      await stop()
      await world.kill()
      kill(inside.first, "SIGKILL")
      await world.start()
    },
    isHeardAgain: false,
  },
}

/** Stops of prompts whose sandbox is silent, whatever happens then. A run that leaves most out takes so many. */
export const silentStops = (world: () => World, backend: string, few: number): void => {
  sampledCases(`mishaps of stops on silent sandboxes, ${backend}`, few, (it) => {
    for (const [place, [name, mishap]] of Object.entries(MISHAPS).entries())
      it(
        `[R3.2] [R3.3] [R3.4] ends what a stopped prompt runs, keeps once what its sandbox says of it, and runs no prompt beside it, though ${name}`,
        () => round(world(), `silent-${place}`, mishap),
        ROUND_MS,
      )
  })
}

const round = async (world: World, slug: string, mishap: Mishap): Promise<void> => {
  const workspace = { slug, network: { kind: "none" as const } }
  const sandbox = await world.client().sandboxes.create({ workspace })
  onTestFinished(() => insist(() => world.client().sandboxes.remove(sandbox.id, { force: true })))
  await sandbox.ready()
  // Somebody else uses it, so that it is not given up.
  await sandbox.hold({ holder: "a test" })
  const session = await world.client().sessions.create({ workspace })
  const log = follow(world, session.id)
  const prompts = () => insist(() => world.client().sessions.at(session.id).prompts())

  const [left, last] = [new Nap(), new Nap()]
  const script = `trap 'echo late; exec ${last}' USR1; echo on; ${left} & wait`
  const { id } = await session.prompt(script)
  await expect.poll(() => log.lines(id)).toEqual(["running", "on"])
  const inside = findInside(sandbox.id) ?? expect.unreachable("it runs")
  onTestFinished(() => void kill(inside.supervisor, "SIGCONT"))

  const stop = async () => {
    // The prompt writes to its output, which its supervisor may read long after.
    kill(
      startedAs((line) => line.includes(`exec ${last}; echo`) || line.includes(`exec ${last}'`)),
      "SIGUSR1",
    )
    await expect.poll(() => last.isRunning).toBe(true)
    await world.client().sessions.at(session.id).stop().catch(unlessDead)
    await expect.poll(async () => (await prompts())[0]?.state, POLL).toBe("stopped")
    expect([left.isRunning, last.isRunning]).toEqual([false, false])
    await insist(() =>
      world.client().sessions.at(session.id).prompt(`echo next >> next; cat next`, { key: "next" }),
    )
  }
  await mishap.strike({ world, sandbox, inside, stop })

  await expect.poll(async () => (await prompts())[1]?.state, POLL).toBe("succeeded")
  const next = (await prompts())[1]
  expect(next?.sandbox === sandbox.id).toBe(mishap.isHeardAgain)
  await expect.poll(() => log.lines(next?.id), POLL).toEqual(["running", "next", "succeeded"])
  const late = mishap.isHeardAgain ? ["late"] : []
  const lines = log.lines(id)
  expect(lines.filter((line) => line !== "stopped")).toEqual(["running", "on", ...late])
  expect(lines).toHaveLength(3 + late.length)
  expect(log.placeOf(id, -1)).toBeLessThan(log.placeOf(next?.id, 0))
  expect(log.numbers()).toEqual(log.numbers().map((_, index) => index + 1))
  log.end()
}

const POLL = { timeout: 60_000 }

/** A call that its server did not survive. */
const unlessDead = (thrown: { readonly code?: string }): [] => {
  if (thrown.code !== "server.unreachable") throw thrown
  return []
}

/** The log of a session, as somebody has it who follows it all the time. */
const follow = (world: World, session: string) => {
  const events: Event[] = []
  const over = new AbortController()
  onTestFinished(() => over.abort())
  const read = async () => {
    const following = world.client().sessions.at(session).events({ signal: over.signal })
    for await (const event of following) events.push(event)
  }
  void read().catch((thrown) => {
    if (!over.signal.aborted) throw thrown
  })
  const of = (prompt: PromptId | undefined) =>
    events.flatMap(({ body }, place) => {
      if (!("prompt" in body) || body.prompt !== prompt) return []
      if (body.type === "message.delta") return [{ line: body.text.trim(), place }]
      const isState = body.type === "prompt.state" && body.state !== "queued"
      return isState ? [{ line: body.state, place }] : []
    })
  return {
    numbers: () => events.map(({ sequence }) => sequence),
    /** The states and texts of a prompt, but that it was queued. */
    lines: (prompt: PromptId | undefined) => of(prompt).map(({ line }) => line),
    placeOf: (prompt: PromptId | undefined, which: number) => of(prompt).at(which)?.place ?? -1,
    end: () => over.abort(),
  }
}
