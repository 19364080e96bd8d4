import { queryObjects } from "node:v8"
import type { PromptStanding, PromptStart } from "@berth/protocol/bridge"
import { BerthError } from "@berth/protocol/errors"
import type { Event, EventBody } from "@berth/protocol/event"
import { newId, type PromptId, Slug } from "@berth/protocol/ids"
import { MARKS_OF_AGENT, marksOfPrompt } from "@berth/protocol/process-mark"
import { ConfigHash } from "@berth/protocol/sandbox"
import { CreatePrompt } from "@berth/protocol/sessions"
import { AgentSpec } from "@berth/protocol/workspace"
import { describe, expect, it, onTestFinished } from "vitest"
import { createLogger } from "../logging/logger.ts"
import { Secrets } from "../logging/secrets.ts"
import type { SandboxConnection } from "../sandboxes/keeping/connection.ts"
import type { EndProcesses } from "../sandboxes/requests/end-processes.ts"
import type { Use } from "../sandboxes/requests/use.ts"
import { systemClock } from "../sandboxes/state/clock.ts"
import { openRows as openSandboxRows } from "../sandboxes/state/rows.ts"
import { makeDataDir } from "../store/testing/data-dir.ts"
import { openForTest } from "../store/testing/open-for-test.ts"
import { Driver, type DriverParts } from "./driver.ts"
import type { StopLimits } from "./limits.ts"
import type { AssignedPrompt } from "./rows.ts"
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

const connectionOf = (connection: Partial<SandboxConnection>): SandboxConnection =>
  connection as SandboxConnection

const AT = "2026-01-02T03:04:05.678Z"

const delta = (prompt: PromptId, text: string): EventBody => ({
  type: "message.delta",
  prompt,
  message: "m",
  text,
})
const ended = (prompt: PromptId, state: "succeeded" | "failed"): EventBody => ({
  type: "prompt.state",
  prompt,
  state,
})
const isStateOf = (body: EventBody, prompt: PromptId, state: string): boolean =>
  body.type === "prompt.state" && body.prompt === prompt && body.state === state

const succeeding = (): SandboxConnection =>
  connectionOf({
    agent: "shell",
    connected: Promise.resolve(),
    startPrompt: async () => ({ state: "ended", result: { state: "succeeded" } }),
  })

const never = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason))
  })

interface Change extends Partial<Pick<DriverParts, "endProcesses" | "at">> {
  readonly limits?: Partial<StopLimits>
  readonly tellAfterMs?: number
}

/** Opens a driver on a real store, in front of a sandbox in which each prompt succeeds at once. */
const setUp = async (
  change: (stored: Stored) => Partial<Stored> = () => ({}),
  others: Partial<DriverParts["sandboxes"]> = {},
  keptBy: DriverParts["presence"]["of"] = async () => undefined,
  kind: "shell" | "opencode" = "shell",
  { limits, tellAfterMs = 20, ...parts }: Change = {},
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
  const kept: Partial<SandboxConnection> = {
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
    gone: (_, signal) => never(signal),
    connection: () => connectionOf(kept),
    haltOf: () => undefined,
    ...others,
  } as Partial<DriverParts["sandboxes"]> as DriverParts["sandboxes"]
  const presence = { of: keptBy, work: async () => {} }
  const open = () => {
    const opened = new Driver({
      stored,
      sandboxes,
      presence,
      clock: systemClock,
      log,
      endProcesses: async () => 1,
      at: () => {},
      limits: {
        toldWithinMs: 50,
        askAgainMs: 20,
        watch: { lookEveryMs: 10, tellAfterMs },
        stop: { lookEveryMs: 10, stopWithinMs: 50, giveUpAfterMs: 100, ...limits },
      },
      ...parts,
    })
    whole.onChange((session) => opened.wake(session))
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
  const stop = (of = session.id) => whole.changes.requestStop(of, undefined)
  const told = async (): Promise<EventBody[]> =>
    (await whole.log.read(session.id, 0)).map(({ json }) => (JSON.parse(json) as Event).body)
  let said = 0
  /** Stores what the sandbox says. */
  const take = async (...bodies: EventBody[]): Promise<void> => {
    const rows = openSandboxRows(store.db, systemClock)
    if (said === 0)
      await rows.insert({
        id: use.sandbox,
        workspace: session.workspace,
        configHash: ConfigHash.parse("0".repeat(64)),
        mode: "fresh",
        phase: "ready",
      })
    const events = bodies.map((body) => ({ sequence: ++said, at: AT, body }))
    await whole.events.take(use.sandbox, events)
  }
  /** A prompt of another session that the sandbox has. */
  const beside = async (other: "shell" | "opencode") => {
    const agent = AgentSpec.parse({ kind: other })
    const { workspace } = session
    const { id } = await whole.rows.create({ workspace, agent, onInterrupt: "wait", atMs: 1 })
    const prompt = await whole.changes.accept(id, CreatePrompt.parse({ text: "go" }))
    await whole.changes.assign(prompt.id, use.sandbox)
    return prompt
  }
  const { rows } = whole
  return { driver, restart, send, stop, states, prompts, sandboxesOf, told, take, beside, rows }
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
    connection: () =>
      connectionOf({ agent: "shell", startPrompt: async () => ({ state: "started" }) }),
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
  const kept = connectionOf({
    agent: sandbox,
    startPrompt: async (start) => {
      starts.push(start)
      return { state: "ended", result: { state: "succeeded" } }
    },
  })
  const { send, states } = await setUp(undefined, { connection: () => kept }, undefined, session)
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
    connection: () =>
      connectionOf({ agent: "shell", startPrompt: async () => ({ state: "ended", result }) }),
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
    connection: () =>
      connectionOf({
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
    connection: () =>
      connectionOf({
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

it("tells nothing that a prompt waits for once it is assigned, though the store failed after that", async () => {
  let assigns = 0
  let starts = 0
  const { driver, send } = await setUp(
    ({ changes }) => {
      const assign = changes.assign.bind(changes)
      changes.assign = async (...call) => {
        assigns++
        await assign(...call)
        throw new BerthError("store.busy", "somebody has it")
      }
      return {}
    },
    {
      connection: () =>
        connectionOf({
          agent: "shell",
          connected: Promise.resolve(),
          startPrompt: async () => {
            starts++
            return { state: "started" }
          },
        }),
    },
    undefined,
    undefined,
    { tellAfterMs: 60_000 },
  )
  const { id } = await send("go")
  await expect.poll(() => starts).toBe(1)
  expect([assigns, driver.waitOf(id)]).toEqual([1, null])
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
    connectionOf({
      agent: "shell",
      connected: new Promise<void>(() => {}),
      silence: { forMs: 1_000, reason: new BerthError("bridge.timed_out", "no answer") },
    })
  const silence = `${use.sandbox} did not take the stop within 0.05 s (${use.sandbox} is not reached: no answer)`

  it("[R3.3] ends the prompt, then the sandbox; the next prompt waits until that is gone, and goes to another", async () => {
    const gone = Promise.withResolvers<void>()
    const given = Promise.withResolvers<unknown>()
    const other = { ...use, sandbox: newId.sandbox() }
    let uses = 0
    const server = await setUp(undefined, {
      useOf: async () => (uses++ === 0 ? use : other),
      connection: (sandbox) => (sandbox === use.sandbox ? mute() : succeeding()),
      gone: (sandbox, signal) => (sandbox === use.sandbox ? gone.promise : never(signal)),
      giveUp: async (_, givingUp) => {
        given.resolve(givingUp)
        return undefined
      },
    })
    const { driver, send, stop, prompts, states, sandboxesOf, told } = server
    const { id, session } = await send("go")
    await expect.poll(sandboxesOf).toEqual([use.sandbox])
    await expect
      .poll(() => driver.waitOf(id))
      .toMatchObject({
        code: "bridge.timed_out",
        message: `${use.sandbox} is not reached: no answer`,
      })
    await stop()
    await expect
      .poll(prompts)
      .toMatchObject([
        { state: "stopped", reason: `${silence}: its processes were ended from outside` },
      ])
    const next = await send("and on")
    const reason = `${use.sandbox} did not take a stop within 0.1 s`
    expect(await given.promise).toEqual({ reason, by: [id, session] })
    await expect.poll(() => driver.waitOf(next.id)?.code).toBe("bridge.timed_out")
    expect([driver.waitOf(id), await states()]).toEqual([null, ["stopped", "queued"]])
    gone.resolve()
    await expect.poll(states).toEqual(["stopped", "succeeded"])
    expect(await sandboxesOf()).toEqual([use.sandbox, other.sandbox])
    expect((await told()).filter((body) => isStateOf(body, id, "stopped"))).toHaveLength(1)
  })

  it("[R3.3] is told to the sandbox when it answers again, which says the rest and takes the next prompt", async () => {
    const answering = Promise.withResolvers<void>()
    const said: string[] = []
    const server = await setUp(undefined, {
      connection: () =>
        connectionOf({
          agent: "shell",
          connected: Promise.resolve(),
          startPrompt: async ({ prompt, text }) => {
            said.push(text)
            if (text === "next") await server.take(ended(prompt, "succeeded"))
            return { state: "started" }
          },
          stopPrompt: async (prompt) => {
            await answering.promise
            said.push("stop")
            await server.take(
              delta(prompt, "late"),
              ended(prompt, "failed"),
              delta(prompt, "later"),
            )
            return { state: "ended", result: { state: "failed" } }
          },
        }),
      giveUp: async () => "others use it",
    })
    const { send, stop, states, told } = server
    const { id } = await send("go")
    await expect.poll(() => said).toEqual(["go"])
    await stop()
    await expect.poll(states).toEqual(["stopped"])
    const next = await send("next")
    answering.resolve()
    await expect.poll(states).toEqual(["stopped", "succeeded"])
    expect(said).toEqual(["go", "stop", "next"])
    expect((await told()).slice(1)).toEqual([
      expect.objectContaining({ type: "prompt.state", prompt: id, state: "stopped" }),
      expect.objectContaining({ type: "prompt.state", prompt: next.id, state: "queued" }),
      delta(id, "late"),
      ended(next.id, "succeeded"),
    ])
  })

  it("[R3.3] [R3.4] is resumed by the next server: the next prompt waits for the sandbox's word", async () => {
    let isSilent = true
    const said: string[] = []
    const server = await setUp(undefined, {
      connection: () =>
        isSilent
          ? mute()
          : connectionOf({
              ...succeeding(),
              stopPrompt: async () => {
                said.push("stop")
                return { state: "unknown" }
              },
            }),
      giveUp: async () => "others use it",
      endUses: async (_, isOver) =>
        void over.push(...(await server.prompts()).map(({ id }) => isOver(id))),
    })
    const over: boolean[] = []
    await server.send("go")
    await expect.poll(server.sandboxesOf).toEqual([use.sandbox])
    await server.stop()
    await expect.poll(server.states).toEqual(["stopped"])
    await server.send("next")
    const next = await server.restart()
    // Its lease stays.
    expect(over).toEqual([false, true])
    const [, waiting] = await server.prompts()
    await expect.poll(() => next.waitOf(waiting?.id as PromptId)?.code).toBe("bridge.timed_out")
    expect([said, await server.states()]).toEqual([[], ["stopped", "queued"]])
    isSilent = false
    await next.close()
    await server.restart()
    await expect.poll(server.states).toEqual(["stopped", "succeeded"])
    expect(said).toEqual(["stop"])
  })

  it("[R3.3] gives the sandbox up as soon as nobody else uses it", async () => {
    const gone = Promise.withResolvers<void>()
    let tries = 0
    const { send, stop, rows, sandboxesOf } = await setUp(undefined, {
      connection: mute,
      gone: () => gone.promise,
      giveUp: async () => {
        if (++tries < 3) return "others use it"
        gone.resolve()
        return undefined
      },
    })
    const { session } = await send("go")
    await expect.poll(sandboxesOf).toEqual([use.sandbox])
    await stop()
    await expect.poll(() => rows.next(session)).toBeUndefined()
    expect(tries).toBe(3)
  })

  it("[R3.3] ends the prompt also where the sandbox falls silent after it took the stop", async () => {
    let stops = 0
    const { send, stop, states, sandboxesOf } = await setUp(undefined, {
      connection: () =>
        connectionOf({
          agent: "shell",
          connected: Promise.resolve(),
          startPrompt: async () => ({ state: "started" }),
          stopPrompt: () =>
            ++stops < 3 ? Promise.resolve({ state: "started" }) : new Promise(() => {}),
        }),
      giveUp: async () => "others use it",
    })
    await send("go")
    await expect.poll(sandboxesOf).toEqual([use.sandbox])
    await stop()
    await expect.poll(states).toEqual(["stopped"])
    expect(stops).toBe(3)
  })

  it("[R3.3] ends the prompt also where the sandbox falls silent, and somebody asks for the stop again and again", async () => {
    let stops = 0
    const { send, stop, states, sandboxesOf } = await setUp(undefined, {
      connection: () =>
        connectionOf({
          agent: "shell",
          connected: Promise.resolve(),
          startPrompt: async () => ({ state: "started" }),
          stopPrompt: () =>
            ++stops < 2 ? Promise.resolve({ state: "started" }) : new Promise(() => {}),
        }),
      giveUp: async () => "others use it",
    })
    await send("go")
    await expect.poll(sandboxesOf).toEqual([use.sandbox])
    const again = async () => {
      await stop()
      return await states()
    }
    await expect.poll(again, { interval: 1, timeout: 5_000 }).toEqual(["stopped"])
  })

  it("[R3.3] tries again to end the prompt's processes, until that succeeds, and says so", async () => {
    let tries = 0
    const { send, stop, states, sandboxesOf, told } = await setUp(
      undefined,
      { connection: mute, giveUp: async () => "others use it" },
      undefined,
      undefined,
      {
        endProcesses: async () => {
          if (++tries < 3) throw new Error("a process cannot be read")
          return 1
        },
      },
    )
    const { id } = await send("go")
    await expect.poll(sandboxesOf).toEqual([use.sandbox])
    await stop()
    await expect.poll(states).toEqual(["stopped"])
    const message = `what the stopped prompt ran in ${use.sandbox}: its processes were ended from outside`
    await expect
      .poll(async () => (await told()).at(-1))
      .toEqual({ type: "warning", prompt: id, message })
    expect(tries).toBe(3)
  })

  it.each([
    ["shell", true],
    ["opencode", false],
  ] as const)(
    "[R3.3] knows whether the sandbox had another prompt for the shell since one started (%s)",
    async (other, isFound) => {
      const server = await setUp(undefined, {
        connection: mute,
        giveUp: async () => "others use it",
      })
      const { id, session } = await server.send("go")
      await expect.poll(server.sandboxesOf).toEqual([use.sandbox])
      await server.take({ type: "prompt.state", prompt: id, state: "running" })
      const found = await server.rows.next(session)
      const prompt = { ...found, sandbox: use.sandbox } as AssignedPrompt
      expect(prompt.startedAt).toBe(AT)
      expect(await server.rows.hasOtherShell(prompt)).toBe(false)
      const beside = await server.beside(other)
      expect(await server.rows.hasOtherShell(prompt)).toBe(isFound)
      await server.take(ended(beside.id, "succeeded"))
      expect(await server.rows.hasOtherShell(prompt)).toBe(isFound)
      const later = { ...prompt, startedAt: new Date(Date.parse(AT) + 1).toISOString() }
      expect(await server.rows.hasOtherShell(later)).toBe(false)
    },
  )

  it("[R3.3] gives up a sandbox for all sessions that wait for it, so that none of them keeps it for another", async () => {
    const given: (readonly string[])[] = []
    const server = await setUp(undefined, {
      connection: mute,
      giveUp: async (_, { by }) => {
        given.push(by)
        return "others use it"
      },
    })
    const one = await server.send("go")
    await expect.poll(server.sandboxesOf).toEqual([use.sandbox])
    const other = await server.beside("shell")
    await server.stop()
    await server.stop(other.session)
    const all: string[] = [one.id, one.session, other.id, other.session].toSorted()
    await expect.poll(() => given.some((by) => by.toSorted().join() === all.join())).toBe(true)
    expect(given.every((by) => by.every((subject) => all.includes(subject)))).toBe(true)
  })

  it.each([
    [1, "its processes were ended from outside"],
    [0, "nothing of it was found running"],
    [undefined, "whatever it runs there goes on until the sandbox answers"],
    [new Error("no"), "whatever it runs there goes on until the sandbox answers"],
  ])("[R3.3] says what became of the prompt's processes (%s)", async (found, words) => {
    const { send, stop, prompts, sandboxesOf } = await setUp(
      undefined,
      { connection: mute, giveUp: async () => "others use it" },
      undefined,
      undefined,
      {
        endProcesses: async () => {
          if (found instanceof Error) throw found
          return found
        },
      },
    )
    await send("go")
    await expect.poll(sandboxesOf).toEqual([use.sandbox])
    await stop()
    await expect.poll(prompts).toMatchObject([{ state: "stopped", reason: `${silence}: ${words}` }])
  })

  it("[R3.3] says that the sandbox is halted", async () => {
    const { send, stop, prompts, sandboxesOf } = await setUp(undefined, {
      connection: mute,
      haltOf: () => "the disk is full",
      giveUp: async () => "it is halted (the disk is full)",
    })
    await send("go")
    await expect.poll(sandboxesOf).toEqual([use.sandbox])
    await stop()
    const reason = expect.stringContaining(`(${use.sandbox} is halted: the disk is full)`)
    await expect.poll(prompts).toMatchObject([{ state: "stopped", reason }])
  })

  it.each([
    { own: "shell", other: undefined, ends: "its own processes" },
    { own: "shell", other: "opencode", ends: "its own processes" },
    { own: "opencode", other: undefined, ends: "the agent's processes" },
    { own: "opencode", other: "shell", ends: "the agent's processes" },
    { own: "opencode", other: "opencode", ends: "nothing" },
    { own: "opencode", other: "opencode", isOtherStopped: true, ends: "the agent's processes" },
  ] as const)(
    "[R3.3] ends $ends for a prompt for $own, beside one for $other",
    async ({ own, other, ends, ...more }) => {
      const ended: EndProcesses[] = []
      const server = await setUp(
        undefined,
        {
          connection: () => connectionOf({ ...mute(), agent: own }),
          giveUp: async () => "others use it",
        },
        undefined,
        own,
        {
          endProcesses: async (which) => {
            ended.push(which)
            return 1
          },
        },
      )
      const beside = other && (await server.beside(other))
      if (beside !== undefined && "isOtherStopped" in more) await server.stop(beside.session)
      const { id } = await server.send("go")
      await expect.poll(server.sandboxesOf).toEqual([use.sandbox])
      await server.stop()
      await expect.poll(server.states).toEqual(["stopped"])
      const marks = {
        "its own processes": [marksOfPrompt(id)],
        "the agent's processes": [MARKS_OF_AGENT],
        nothing: [],
      }[ends]
      expect([...new Set(ended.map((which) => which.marks))]).toEqual(marks)
      const shared = `its agent works for ${beside?.id} as well, and goes on until the sandbox answers`
      const [{ reason } = {}] = await server.prompts()
      expect(reason?.endsWith(shared)).toBe(ends === "nothing")
    },
  )

  it("ends no sandbox that answers late because the server stood still", async () => {
    const stopWithinMs = 500
    const taken = Promise.withResolvers<PromptStanding>()
    let looks = 0
    let stallAt = Number.POSITIVE_INFINITY
    const stall = () => {
      const overMs = performance.now() + 2 * stopWithinMs
      while (performance.now() < overMs);
    }
    const others: Parameters<typeof setUp>[1] = {
      connection: () => {
        if (++looks === stallAt) stall()
        return connectionOf({
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
    const { send, stop, states } = await setUp(undefined, others, undefined, undefined, {
      limits: { stopWithinMs },
    })
    await send("go")
    await expect.poll(() => looks).toBeGreaterThan(1)
    await stop()
    await expect.poll(() => looks > stallAt + 2, { timeout: 10_000 }).toBe(true)
    expect(await states()).toEqual(["queued"])
    taken.resolve({ state: "ended", result: { state: "stopped" } })
    await expect.poll(states).toEqual(["stopped"])
  })

  it("kills nothing where one break delays the stop, however often the sandbox was not reached before", async () => {
    const broken = new BerthError("bridge.dropped", "broken")
    let starts = 0
    let stops = 0
    const kills: EndProcesses[] = []
    const { send, stop, states, prompts } = await setUp(
      undefined,
      {
        connection: () =>
          connectionOf({
            agent: "shell",
            connected: Promise.resolve(),
            startPrompt: async () => {
              if (++starts < 5) throw broken
              return { state: "started" }
            },
            stopPrompt: async () => {
              if (++stops < 2) throw broken
              return { state: "ended", result: { state: "stopped" } }
            },
          }),
      },
      undefined,
      undefined,
      {
        limits: { stopWithinMs: 1_000 },
        endProcesses: async (which) => kills.push(which),
      },
    )
    await send("go")
    await expect.poll(() => starts).toBe(5)
    await stop()
    await expect.poll(states).toEqual(["stopped"])
    expect(await prompts()).toMatchObject([{ reason: null }])
    expect(kills).toEqual([])
  })

  it("ends no sandbox that answers, though the prompt takes long to stop", async () => {
    let looks = 0
    const ended = Promise.withResolvers<void>()
    const { send, stop, states } = await setUp(undefined, {
      connection: () => {
        if (++looks > 20) ended.resolve()
        return connectionOf({
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
    connectionOf({
      agent: "shell",
      connected: Promise.resolve(),
      startPrompt: async () => ({ state: "started" }),
    })
  const refusing = async (refusal: () => BerthError | undefined, stays?: string) => {
    const server = await setUp(undefined, {
      connection: started,
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
    ["sandbox.ended", undefined],
    ["sandbox.halted", "it is halted (no room)"],
  ] as const)("[R3.3] waits with the reason, and can be stopped (%s)", async (code, stays) => {
    const error = new BerthError(code, "it cannot be used now")
    const { id, restart, stop, prompts } = await refusing(() => error, stays)
    const next = await restart()
    await expect.poll(() => next.waitOf(id)).toMatchObject({ code, message: error.message })
    await stop()
    await expect
      .poll(prompts)
      .toMatchObject([{ state: "stopped", reason: expect.stringContaining(error.message) }])
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
    connection: () =>
      connectionOf({
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
      connection: () =>
        connectionOf({
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
    connection: () => {
      looks++
      return connectionOf({
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
    connection: () =>
      connectionOf({
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
