import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type Bridge, openBridge } from "@berth/bridge/bridge"
import type { Event } from "@berth/protocol/event"
import { newId, type PromptId } from "@berth/protocol/ids"
import { sized } from "@berth/testing/sampled"
import { seededFor } from "@berth/testing/seed"
import { expect, it, onTestFinished } from "vitest"
import { startCuttingProxy } from "./cutting-proxy.ts"
import { type Life, live } from "./life.ts"

const TOKEN = "a-token-for-tests-0123456789abcdefghijkl"
const KILLS = sized("kills of both ends of the bridge", { few: 8, all: 14 })
const ROUNDS = sized("rounds of cutting the bridge", { few: 8, all: 40 })
/** The most bytes of a connection, one way: some end in their hello, some after thousands of events. */
const CUT_AFTER_BYTES = 300_000

/** Makes a directory as the backend does, and removes it after the test. */
const prepare = () => {
  const directory = mkdtempSync(join(tmpdir(), "berth-chaos-"))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  writeFileSync(join(directory, "token"), TOKEN, { mode: 0o600 })
  return { directory, sandbox: newId.sandbox() }
}

/** Starts a supervisor, and another one each time it is killed. */
const keepSupervisor = (directory: string, sandbox: string) => {
  /** The label of every number that was promised. */
  const promised = new Map<number, string>()
  let last: number | undefined
  const start = (): Life =>
    live("supervisor.ts", [directory, sandbox], (line) => {
      const [what, number, label = ""] = line.split(" ")
      if (what === "event") promised.set(Number(number), label)
      if (what === "last") last = Number(number)
    })
  let life = start()
  onTestFinished(() => life.kill())
  return {
    promised,
    last: () => last,
    killAndRestart: async () => {
      await life.kill()
      life = start()
    },
    stopProducing: () => life.child.stdin?.end(),
  }
}

const numbersOf = (events: readonly Event[]) => events.map(({ sequence }) => sequence)
const upTo = (last: number) => Array.from({ length: last }, (_, place) => place + 1)

const expectPromised = (events: readonly Event[], promised: ReadonlyMap<number, string>) => {
  for (const [number, label] of promised)
    expect(events[number - 1]?.body).toEqual({ type: "warning", message: label })
}

it("[R3.2] [R3.4] the bridge delivers events as exactly 1 to N and runs each prompt at most once, whatever is cut, killed or restarted", async () => {
  const { directory, sandbox } = prepare()
  const random = seededFor("rounds of cutting the bridge")
  const supervisor = keepSupervisor(directory, sandbox)
  const proxied = join(directory, "proxy")
  const proxy = await startCuttingProxy(proxied, join(directory, "socket"), random, CUT_AFTER_BYTES)
  onTestFinished(proxy.close)

  const stored: Event[] = []
  const prompts = Array.from({ length: ROUNDS / 2 }, () => newId.prompt())
  const session = newId.session()
  const open = new Set<PromptId>()
  let wake = () => {}
  let storeFails = false
  let stop = new AbortController()

  const ask = (prompt: PromptId) =>
    bridge.startPrompt({ prompt, session, text: "one two three" }).catch(() => {})
  const openAgain = (): Bridge => {
    stop = new AbortController()
    return openBridge(
      {
        address: { path: proxied },
        token: TOKEN,
        sandbox,
        lastSeen: stored.length,
        onEvents: async (events) => {
          if (storeFails) {
            storeFails = false
            throw new Error("the store failed")
          }
          await new Promise((resolve) => setImmediate(resolve))
          stored.push(...events)
          wake()
        },
        onState: ({ kind }) => {
          // Every prompt whose end is not known is sent again.
          if (kind === "up") setImmediate(() => void Promise.all([...open].map(ask)))
        },
      },
      stop.signal,
    )
  }
  let bridge = openAgain()
  onTestFinished(() => stop.abort())

  const untilStored = async (isEnough: () => boolean) => {
    while (!isEnough())
      await new Promise<void>((resolve) => {
        wake = resolve
      })
  }
  const actions: (() => void | Promise<void>)[] = [
    () => proxy.cut(),
    () => supervisor.killAndRestart(),
    async () => {
      stop.abort()
      await bridge.closed
      bridge = openAgain()
    },
    () => {
      storeFails = true
    },
  ]
  for (let round = 0; round < ROUNDS; round++) {
    const wanted = stored.length + Math.floor(random() * 300)
    await untilStored(() => stored.length > wanted)
    if (round % 2 === 0) {
      const prompt = prompts[round / 2]
      if (prompt !== undefined) {
        open.add(prompt)
        void ask(prompt)
      }
    }
    await actions[Math.floor(random() * actions.length)]?.()
  }

  const ends = () =>
    stored.flatMap(({ body }) =>
      body.type === "prompt.state" && body.state !== "running" ? [body] : [],
    )
  await untilStored(() => ends().length >= prompts.length && supervisor.promised.size > 1_000)
  supervisor.stopProducing()
  await expect.poll(supervisor.last, { timeout: 20_000 }).toBeDefined()
  await expect.poll(() => stored.length, { timeout: 20_000 }).toBe(supervisor.last())
  stop.abort()
  await bridge.closed

  expect(numbersOf(stored)).toEqual(upTo(stored.length))
  expectPromised(stored, supervisor.promised)
  expect(supervisor.promised.size).toBeGreaterThan(1_000)

  expect(
    ends()
      .map(({ prompt }) => prompt)
      .sort(),
  ).toEqual([...prompts].sort())
  const ran = readFileSync(join(directory, "ran"), "utf8").trim().split("\n")
  expect(new Set(ran).size).toBe(ran.length)
  const texts = (prompt: PromptId) =>
    stored.flatMap(({ body }) =>
      body.type === "message.delta" && body.prompt === prompt ? [body.text] : [],
    )
  for (const { prompt, state } of ends()) {
    if (state === "succeeded") expect(texts(prompt)).toEqual(["one", "two", "three"])
    else expect(state).toBe("interrupted")
  }
}, 120_000)

it(`[R3.4] the server's store holds events as exactly 1 to N after ${KILLS} kills, each of the server or the supervisor, at random moments`, async () => {
  const { directory, sandbox } = prepare()
  const random = seededFor("kills of both ends of the bridge")
  const supervisor = keepSupervisor(directory, sandbox)
  let count = 0
  let wake = () => {}
  const startServer = () =>
    live("server.ts", [directory, sandbox], (line) => {
      count = Number(line)
      wake()
    })
  let server = startServer()
  onTestFinished(() => server.kill())
  const untilStored = async (wanted: number) => {
    while (count < wanted)
      await new Promise<void>((resolve) => {
        wake = resolve
      })
  }

  for (let round = 0; round < KILLS; round++) {
    await untilStored(count + 1 + Math.floor(random() * 1_000))
    if (random() < 0.5) {
      await server.kill()
      server = startServer()
    } else await supervisor.killAndRestart()
  }
  await untilStored(count + 1)
  supervisor.stopProducing()
  await expect.poll(supervisor.last, { timeout: 20_000 }).toBeDefined()
  await untilStored(supervisor.last() ?? 0)
  await server.kill()

  const lines = readFileSync(join(directory, "store"), "utf8").trim().split("\n")
  const events: Event[] = lines.map((line) => JSON.parse(line))
  expect(numbersOf(events)).toEqual(upTo(supervisor.last() ?? 0))
  expectPromised(events, supervisor.promised)
}, 120_000)
