import { queryObjects } from "node:v8"
import type { PromptStanding, PromptStart } from "@berth/protocol/bridge"
import { BerthError } from "@berth/protocol/errors"
import { newId, Slug } from "@berth/protocol/ids"
import { CreatePrompt } from "@berth/protocol/sessions"
import { AgentSpec } from "@berth/protocol/workspace"
import { describe, expect, it, onTestFinished } from "vitest"
import { createLogger } from "../logging/logger.ts"
import { Secrets } from "../logging/secrets.ts"
import type { Kept } from "../sandboxes/keeping/kept.ts"
import type { Use } from "../sandboxes/requests/use.ts"
import { systemClock } from "../sandboxes/state/clock.ts"
import { makeDataDir } from "../store/testing/data-dir.ts"
import { openForTest } from "../store/testing/open-for-test.ts"
import { type DriverParts, openDriver } from "./driver.ts"
import { openStored, type Stored } from "./stored.ts"

const log = await createLogger({
  level: "fatal",
  pretty: false,
  secrets: new Secrets(),
  destination: { write: () => {} },
})

const use = {
  sandbox: newId.sandbox(),
  leave: async () => {},
  end: async () => {},
} as Partial<Use> as Use

const keeping = (kept: Partial<Kept>): Kept => kept as Kept

/** Opens a driver on a real store, in front of a sandbox in which each prompt succeeds at once. */
const setUp = async (
  change: (stored: Stored) => Partial<Stored> = () => ({}),
  others: Partial<DriverParts["sandboxes"]> = {},
  keptBy: DriverParts["presence"]["of"] = async () => undefined,
  kind: "shell" | "opencode" = "shell",
  limits: DriverParts["limits"] = {},
) => {
  const store = await openForTest({ dataDir: makeDataDir() })
  const whole = openStored({ store, clock: systemClock })
  const stored: Stored = { ...whole, ...change(whole) }
  const session = await whole.rows.create({
    workspace: Slug.parse("app"),
    agent: AgentSpec.parse({ kind }),
    onInterrupt: "wait",
    atMs: 1,
  })
  const started: PromptStanding = { state: "started" }
  const kept: Partial<Kept> = {
    agent: "shell",
    startPrompt: async ({ prompt }) => {
      await whole.changes.end(prompt, { state: "succeeded" })
      return started
    },
  }
  const sandboxes = {
    useOf: async () => use,
    resume: async () => use,
    endUses: async () => {},
    gone: (_, signal) =>
      new Promise((_, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason))
      }),
    kept: () => keeping(kept),
    haltOf: () => undefined,
    ...others,
  } as Partial<DriverParts["sandboxes"]> as DriverParts["sandboxes"]
  const presence = { of: keptBy, work: async () => {} }
  const open = () => {
    const opened = openDriver({
      stored,
      sandboxes,
      presence,
      clock: systemClock,
      log,
      toldWithinMs: 50,
      limits: { lookEveryMs: 10, tellAfterMs: 20, stopWithinMs: 50, goneWithinMs: 50, ...limits },
    })
    whole.onChange(opened.wake)
    onTestFinished(() => opened.close())
    return opened
  }
  const driver = open()
  /** Starts the driver of the next server. */
  const restart = async () => {
    await driver.close()
    const next = open()
    await next.start()
    return next
  }
  const send = (text: string) => whole.changes.accept(session.id, CreatePrompt.parse({ text }))
  const prompts = () => whole.rows.prompts(session.id)
  const states = async () => (await prompts()).map(({ state }) => state)
  const sandboxesOf = async () => (await prompts()).map(({ sandbox }) => sandbox)
  const stop = () => whole.changes.requestStop(session.id, undefined)
  return { driver, restart, send, stop, states, prompts, sandboxesOf }
}

it("[R3.1] runs a prompt though the store cannot be read three times", async () => {
  let failures = 3
  const { send, states } = await setUp(({ rows }) => ({
    rows: {
      ...rows,
      next: async (session) => {
        if (failures-- > 0) throw new BerthError("store.busy", "somebody has it")
        return await rows.next(session)
      },
    },
  }))
  await send("go")
  await expect.poll(states, { timeout: 10_000 }).toEqual(["succeeded"])
})

it("[R3.4] interrupts a prompt at its sandbox's end, though the store failed at the first look", async () => {
  let looks = 0
  const { send, states } = await setUp(undefined, {
    kept: () => keeping({ agent: "shell", startPrompt: async () => ({ state: "started" }) }),
    gone: async () => {
      if (++looks === 1) throw new BerthError("store.busy", "somebody has it")
    },
  })
  await send("go")
  await expect.poll(states, { timeout: 5_000 }).toEqual(["interrupted"])
})

/** Sends a prompt to a session with one agent and a sandbox with another, and returns what the sandbox was given. */
const startsWith = async (session: "shell" | "opencode", sandbox: "shell" | "opencode") => {
  const starts: PromptStart[] = []
  const kept = keeping({
    agent: sandbox,
    startPrompt: async (start) => {
      starts.push(start)
      return { state: "ended", result: { state: "succeeded" } }
    },
  })
  const { send, states } = await setUp(undefined, { kept: () => kept }, undefined, session)
  await send("remove what is old")
  await expect.poll(states).not.toEqual(["queued"])
  return { starts, states: await states() }
}

it("fails a prompt for one agent in a sandbox of another", async () => {
  expect(await startsWith("opencode", "shell")).toEqual({ starts: [], states: ["failed"] })
})

it("runs a command in a sandbox of another agent, which is told that it is for the shell", async () => {
  expect(await startsWith("shell", "opencode")).toMatchObject({ starts: [{ agent: "shell" }] })
  const { starts } = await startsWith("shell", "shell")
  expect(starts[0]).not.toHaveProperty("agent")
})

it("[R3.1] runs a prompt before it is known what the one before it left running", async () => {
  const looked = Promise.withResolvers<void>()
  const { send, states } = await setUp(undefined, {
    useOf: async () => ({ ...use, leave: () => looked.promise }),
  })
  onTestFinished(() => looked.resolve())
  await send("one")
  await send("two")
  await expect.poll(states).toEqual(["succeeded", "succeeded"])
})

it("[R3.4] ends a prompt as its sandbox says, though no event of that comes", async () => {
  const result = { state: "failed", reason: "no" } as const
  const { send, states } = await setUp(undefined, {
    kept: () => keeping({ agent: "shell", startPrompt: async () => ({ state: "ended", result }) }),
  })
  await send("go")
  await expect.poll(states).toEqual(["failed"])
})

it("[R1.6] runs a prompt in the sandbox that its session keeps, and elsewhere only once that has ended", async () => {
  const kept = newId.sandbox()
  let isThere = true
  const { send, sandboxesOf } = await setUp(
    undefined,
    {
      useOnly: async (sandbox) => {
        if (!isThere) throw new BerthError("sandbox.ended", "it is not there any more")
        return { ...use, sandbox }
      },
    },
    async () => kept,
  )
  await send("one")
  await expect.poll(sandboxesOf).toEqual([kept])
  isThere = false
  await send("two")
  await expect.poll(sandboxesOf).toEqual([kept, use.sandbox])
})

it("[R3.3] never starts a prompt that is stopped before its sandbox is reached", async () => {
  const connected = Promise.withResolvers<void>()
  let starts = 0
  const { send, stop, states, sandboxesOf } = await setUp(undefined, {
    kept: () =>
      keeping({
        agent: "shell",
        connected: connected.promise,
        startPrompt: async () => {
          await connected.promise
          starts++
          return { state: "started" }
        },
        stopPrompt: async () => ({ state: starts === 0 ? "unknown" : "started" }),
      }),
  })
  const { id } = await send("go")
  await expect.poll(sandboxesOf).toEqual([use.sandbox])
  expect(await stop()).toEqual([id])
  connected.resolve()
  await expect.poll(states).toEqual(["stopped"])
  expect(starts).toBe(0)
})

it("tells what a queued prompt waits for as that changes, and nothing once it has run", async () => {
  const attempts = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const
  const running: string[] = []
  let attempt = 0
  const { driver, send, states } = await setUp(undefined, {
    useOf: async (_, __, ___, onBooting) => {
      if (attempt++ === 0) {
        await attempts[0].promise
        throw new BerthError("workspace.draining", "app waits for sb-1, which is used by you")
      }
      onBooting?.(use.sandbox)
      await attempts[1].promise
      return use
    },
    kept: () =>
      keeping({
        agent: "shell",
        boot: { mode: "fresh", outcome: "running", readyAtMs: null, running, ending: null },
        startPrompt: async () => ({ state: "ended", result: { state: "succeeded" } }),
      }),
  })
  const { id } = await send("go")
  await expect
    .poll(() => driver.waitOf(id))
    .toMatchObject({
      code: "sandbox.starting",
      message: "the sandbox of app is made or woken",
      since: expect.stringMatching(/^20.*Z$/),
    })
  attempts[0].resolve()
  await expect.poll(() => driver.waitOf(id)?.code).toBe("sandbox.booting")
  expect(driver.waitOf(id)?.message).toBe(`${use.sandbox} boots`)
  running.push("git-sync", "agent-start")
  expect(driver.waitOf(id)?.message).toBe(`${use.sandbox} boots, and is at git-sync, agent-start`)
  attempts[1].resolve()
  await expect.poll(states).toEqual(["succeeded"])
  expect(driver.waitOf(id)).toBeNull()
})

it("tells what refuses a prompt for now, and since when it does", async () => {
  let refusal = 0
  const { driver, send } = await setUp(undefined, {
    useOf: async () => {
      throw new BerthError("backend.unavailable", `the engine is not reached (${++refusal})`)
    },
  })
  const { id } = await send("go")
  await expect.poll(() => driver.waitOf(id)?.message).toBe("the engine is not reached (1)")
  const since = driver.waitOf(id)?.since
  await expect.poll(() => driver.waitOf(id)?.message).not.toBe("the engine is not reached (1)")
  expect(driver.waitOf(id)).toMatchObject({ code: "backend.unavailable", since })
})

describe("a stop that the sandbox does not take", () => {
  const mute = () =>
    keeping({
      agent: "shell",
      connected: new Promise<void>(() => {}),
      silence: { forMs: 1_000, reason: new BerthError("bridge.timed_out", "no answer") },
    })

  it("[R3.3] ends the prompt with its sandbox, once that is gone", async () => {
    const gone = Promise.withResolvers<void>()
    const given: unknown[] = []
    const { driver, send, stop, prompts, sandboxesOf } = await setUp(undefined, {
      kept: mute,
      gone: () => gone.promise,
      giveUp: async (_, givingUp) => {
        given.push(givingUp)
        gone.resolve()
        return undefined
      },
    })
    const { id, session } = await send("go")
    await expect.poll(sandboxesOf).toEqual([use.sandbox])
    await expect
      .poll(() => driver.waitOf(id))
      .toMatchObject({
        code: "bridge.timed_out",
        message: `${use.sandbox} is not reached: no answer`,
      })
    expect(given).toEqual([])
    await stop()
    const reason = `${use.sandbox} did not take the stop within 0.05 s`
    await expect
      .poll(prompts)
      .toMatchObject([{ state: "stopped", reason: `${reason}, and was ended` }])
    expect(given).toEqual([{ reason, by: [id, session] }])
    await expect.poll(() => driver.waitOf(id)).toBeNull()
  })

  it.each([
    [undefined, "and its engine has not ended it yet"],
    ["others use it", "and others use it: whatever the prompt runs there"],
    ["it is halted (the disk is full)", "and it is halted (the disk is full): whatever"],
  ])("[R3.3] ends the prompt where its sandbox stays (why: %s)", async (stays, why) => {
    const { send, stop, prompts, sandboxesOf } = await setUp(undefined, {
      kept: mute,
      giveUp: async () => stays,
    })
    await send("go")
    await expect.poll(sandboxesOf).toEqual([use.sandbox])
    await stop()
    await expect
      .poll(prompts)
      .toMatchObject([{ state: "stopped", reason: expect.stringContaining(why) }])
  })

  it("ends no sandbox that answers late because the server stood still", async () => {
    const limits = { stopWithinMs: 500 }
    const taken = Promise.withResolvers<PromptStanding>()
    let looks = 0
    let stallAt = Number.POSITIVE_INFINITY
    const stall = () => {
      const overMs = performance.now() + 2 * limits.stopWithinMs
      while (performance.now() < overMs);
    }
    const others: Parameters<typeof setUp>[1] = {
      kept: () => {
        if (++looks === stallAt) stall()
        return keeping({
          agent: "shell",
          connected: Promise.resolve(),
          startPrompt: async () => ({ state: "started" }),
          stopPrompt: () => {
            stallAt = looks + 3
            return taken.promise
          },
        })
      },
      giveUp: async () => "others use it",
    }
    const { send, stop, states } = await setUp(undefined, others, undefined, undefined, limits)
    await send("go")
    await expect.poll(() => looks).toBeGreaterThan(1)
    await stop()
    await expect.poll(() => looks > stallAt + 2, { timeout: 10_000 }).toBe(true)
    expect(await states()).toEqual(["queued"])
    taken.resolve({ state: "ended", result: { state: "stopped" } })
    await expect.poll(states).toEqual(["stopped"])
  })

  it("ends no sandbox that answers, though the prompt takes long to stop", async () => {
    let looks = 0
    const ended = Promise.withResolvers<void>()
    const { send, stop, states } = await setUp(undefined, {
      kept: () => {
        if (++looks > 20) ended.resolve()
        return keeping({
          agent: "shell",
          connected: Promise.resolve(),
          silence: undefined,
          startPrompt: async () => ({ state: "started" }),
          stopPrompt: async () => ({ state: "started" }),
        })
      },
      giveUp: async () => expect.unreachable("it answers"),
    })
    await send("go")
    await expect.poll(() => looks).toBeGreaterThan(1)
    await stop()
    await ended.promise
    expect(await states()).toEqual(["queued"])
  })
})

describe("a prompt whose sandbox cannot be used when the server starts", () => {
  const started = () =>
    keeping({
      agent: "shell",
      connected: Promise.resolve(),
      startPrompt: async () => ({ state: "started" }),
    })
  const refusing = async (refusal: () => BerthError | undefined, stays?: string) => {
    const server = await setUp(undefined, {
      kept: started,
      resume: async () => {
        const error = refusal()
        if (error !== undefined) throw error
        return use
      },
      giveUp: async () => stays,
    })
    const { id } = await server.send("go")
    await expect.poll(server.sandboxesOf).toEqual([use.sandbox])
    return { ...server, id }
  }

  it.each([
    ["sandbox.ended", undefined, "its engine has not ended it yet"],
    ["sandbox.halted", "it is halted (no room)", "it is halted (no room)"],
  ] as const)("[R3.3] waits with the reason, and can be stopped (%s)", async (code, stays, why) => {
    const error = new BerthError(code, "it cannot be used now")
    const { id, restart, stop, prompts } = await refusing(() => error, stays)
    const next = await restart()
    await expect.poll(() => next.waitOf(id)).toMatchObject({ code, message: error.message })
    await stop()
    await expect
      .poll(prompts)
      .toMatchObject([{ state: "stopped", reason: expect.stringContaining(why) }])
  })

  it("[R3.4] goes on in the sandbox once that can be used again", async () => {
    let refusals = 0
    const { id, restart, send, states } = await refusing(() =>
      ++refusals < 3 ? new BerthError("sandbox.ended", "it is stopping") : undefined,
    )
    const next = await restart()
    await expect.poll(() => refusals).toBe(3)
    await expect.poll(() => next.waitOf(id)).toBeNull()
    await send("two")
    expect(await states()).toEqual(["queued", "queued"])
  })
})

it("tells how a sandbox refuses a prompt for now, until it accepts the prompt", async () => {
  const taken = Promise.withResolvers<PromptStanding>()
  let isRefused = true
  const { driver, send } = await setUp(undefined, {
    kept: () =>
      keeping({
        agent: "shell",
        connected: Promise.resolve(),
        startPrompt: async () => {
          if (isRefused) throw new BerthError("bridge.congested", "it does not read")
          return await taken.promise
        },
      }),
  })
  const { id } = await send("go")
  await expect
    .poll(() => driver.waitOf(id))
    .toMatchObject({ code: "bridge.congested", message: "it does not read" })
  isRefused = false
  taken.resolve({ state: "started" })
  await expect.poll(() => driver.waitOf(id), { timeout: 5_000 }).toBeNull()
})

it("[R1.6] keeps a prompt's sandbox in use while the store fails, and until the prompt has ended", async () => {
  let [reads, ends] = [0, 0]
  let isFailing = false
  const ended = Promise.withResolvers<PromptStanding>()
  const { send, states, sandboxesOf, driver } = await setUp(
    ({ rows }) => ({
      rows: {
        ...rows,
        next: async (session) => {
          reads++
          if (isFailing) throw new BerthError("store.busy", "somebody has it")
          return await rows.next(session)
        },
      },
    }),
    {
      useOf: async () => ({ ...use, end: async () => void ends++ }),
      resume: async () => expect.unreachable("it has its sandbox"),
      kept: () =>
        keeping({
          agent: "shell",
          connected: Promise.resolve(),
          silence: { forMs: 1_000, reason: undefined },
          startPrompt: () => ended.promise,
        }),
    },
  )
  const { session } = await send("go")
  await expect.poll(sandboxesOf).toEqual([use.sandbox])
  isFailing = true
  const before = reads
  driver.wake(session)
  await expect.poll(() => reads).toBeGreaterThan(before + 3)
  expect(ends).toBe(0)
  isFailing = false
  ended.resolve({ state: "ended", result: { state: "succeeded" } })
  await expect.poll(states, { timeout: 5_000 }).toEqual(["succeeded"])
  await expect.poll(() => ends).toBe(1)
})

it("[R3.4] lets a prompt that nobody stops wait for a sandbox that was not reached for a day", async () => {
  let looks = 0
  const given: unknown[] = []
  const { driver, send, states, sandboxesOf } = await setUp(undefined, {
    kept: () => {
      looks++
      return keeping({
        agent: "shell",
        connected: new Promise<void>(() => {}),
        silence: { forMs: 24 * 3600_000, reason: undefined },
      })
    },
    giveUp: async (_, givingUp) => {
      given.push(givingUp)
      return undefined
    },
  })
  const { id } = await send("go")
  await expect.poll(sandboxesOf).toEqual([use.sandbox])
  await expect.poll(() => driver.waitOf(id)?.code).toBe("bridge.unreachable")
  const before = looks
  await expect.poll(() => looks).toBeGreaterThan(before + 5)
  expect([given, await states()]).toEqual([[], ["queued"]])
})

it("keeps no promise for each look at a prompt that runs for long", async () => {
  const { driver, send, sandboxesOf } = await setUp(undefined, {
    kept: () =>
      keeping({
        agent: "shell",
        connected: Promise.resolve(),
        startPrompt: async () => ({ state: "started" }),
      }),
  })
  const { session } = await send("go")
  await expect.poll(sandboxesOf).toEqual([use.sandbox])
  const looks = async (count: number): Promise<number> => {
    for (let look = 0; look < count; look++) {
      driver.wake(session)
      await sandboxesOf()
    }
    return queryObjects(Promise, { format: "count" })
  }
  const before = await looks(50)
  expect((await looks(LOOKS)) - before).toBeLessThan(LOOKS / 2)
})

const LOOKS = 400
