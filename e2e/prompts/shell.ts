import type { Event, EventBody } from "@berth/protocol/event"
import { newId, SandboxId } from "@berth/protocol/ids"
import { usesAmong } from "@berth/protocol/lease"
import type { Prompt, Session } from "@berth/protocol/session"
import type { Transcript } from "@berth/protocol/sessions"
import { afterAll, beforeAll, expect, it, vi } from "vitest"
import { findInside, kill } from "../crash/inside.ts"
import { Nap } from "../crash/naps.ts"
import { openServer } from "../sandboxes/server.ts"
import { openCalls, type SessionCalls } from "./calls.ts"

/** A toolbox is built, an engine starts, and sandboxes boot beside other tests. */
const STAGE_DEADLINE_MS = 180_000
const DEADLINE_MS = 60_000

/** The sandbox has a second to answer, and on a busy machine it takes a while to find what a prompt runs. */
const STOPPED_WITHIN_MS = 4_000

const workspaceOf = (slug: string) => ({ slug, network: { kind: "none" } })
const bodies = (events: readonly Event[]): EventBody[] => events.map(({ body }) => body)
const textOf = (events: readonly Event[]): string =>
  bodies(events)
    .map((body) => (body.type === "message.delta" ? body.text : ""))
    .join("")

/** Sessions whose prompts are commands, through the API as it is on the wire. */
export const describeShellAgent = (flags: () => Promise<readonly string[]>): void => {
  vi.setConfig({ testTimeout: DEADLINE_MS })
  let server: Awaited<ReturnType<typeof openServer>>
  let calls: SessionCalls
  beforeAll(async () => {
    server = await openServer(await flags())
    calls = openCalls(() => server.access())
  }, STAGE_DEADLINE_MS)
  afterAll(() => server?.close(), STAGE_DEADLINE_MS)

  const open = (slug: string): Promise<Session> =>
    calls.post<Session>("/v1/sessions", { workspace: workspaceOf(slug) }, 201)

  const promptOf = async (session: string, prompt: string): Promise<Prompt> => {
    const { prompts } = await calls.get<{ prompts: Prompt[] }>(`/v1/sessions/${session}/prompts`)
    return prompts.find(({ id }) => id === prompt) as Prompt
  }

  /** Stops a prompt. Resolves when it has ended, with how long that took by the server's own clock. */
  const stoppedAfterMs = async (session: string, prompt: string): Promise<number> => {
    const atMs = Date.now()
    await calls.post(`/v1/sessions/${session}/stop`, {}, 200)
    await calls.until(session, 0, (body) => ended(body, prompt))
    return Date.parse((await promptOf(session, prompt)).endedAt ?? "") - atMs
  }

  it("[R3.1] boots the sandbox with its first prompt, and streams the prompt's output", async () => {
    const session = await open("first")
    const prompt = await calls.prompt(session.id, "echo one; echo two >&2; pwd")
    expect(prompt).toMatchObject({ state: "queued", number: 1, session: session.id })
    const events = await calls.until(session.id, 0, (body) => ended(body, prompt.id))
    expect(events.map(({ sequence }) => sequence)).toEqual(events.map((_, index) => index + 1))
    expect(textOf(events)).toContain("one\n")
    const types = bodies(events).map(({ type }) => type)
    expect(types.indexOf("boot.ready")).toBeGreaterThan(0)
    expect(types.indexOf("boot.ready")).toBeLessThan(types.indexOf("message.delta"))
    const states = bodies(events).flatMap((body) =>
      body.type === "prompt.state" ? body.state : [],
    )
    expect(states).toEqual(["queued", "running", "succeeded"])
    const shown = await calls.get<{ prompts: Prompt[] }>(`/v1/sessions/${session.id}/prompts`)
    expect(shown.prompts).toMatchObject([{ id: prompt.id, state: "succeeded" }])
    const transcript = await calls.get<Transcript>(`/v1/sessions/${session.id}/messages`)
    expect(transcript.turns[0]?.parts[0]).toMatchObject({ kind: "text", isComplete: true })
  })

  it("[R3.1] runs its prompts one at a time, in order", async () => {
    const session = await open("first")
    const prompts: Prompt[] = []
    for (let number = 1; number <= 5; number++)
      prompts.push(await calls.prompt(session.id, `echo begin ${number}; echo end ${number}`))
    const last = prompts.at(-1)?.id ?? newId.prompt()
    const events = await calls.until(session.id, 0, (body) => ended(body, last))
    const said = textOf(events).match(/(begin|end) \d/g)
    expect(said).toEqual([1, 2, 3, 4, 5].flatMap((number) => [`begin ${number}`, `end ${number}`]))
  })

  it("takes a prompt once under one key, and refuses another prompt under it", async () => {
    const session = await open("first")
    const path = `/v1/sessions/${session.id}/prompts`
    const sent = { text: "echo once >> /workspace/once", key: "k1" }
    const [one, other] = await Promise.all([
      calls.post<Prompt>(path, sent, 202),
      calls.post<Prompt>(path, sent, 202),
    ])
    expect(other.id).toBe(one.id)
    await calls.until(session.id, 0, (body) => ended(body, one.id))
    expect((await calls.post<Prompt>(path, sent, 202)).state).toBe("succeeded")
    const refused = await calls.post(path, { ...sent, text: "echo twice" }, 409)
    expect(refused).toMatchObject({ code: "prompt.key_used" })
    const { sandbox } = (await calls.get<{ prompts: Prompt[] }>(path)).prompts[0] as Prompt
    const once = await server.sandbox(sandbox ?? "").commands.run(["cat", "/workspace/once"])
    expect(once.stdout.toString()).toBe("once\n")
  })

  it("[R3.3] is stopped within a second, with all its processes, and takes the next prompt", async () => {
    const session = await open("first")
    const running = await calls.prompt(session.id, "sleep 987 & echo started; sleep 987")
    const waiting = await calls.prompt(session.id, "echo never")
    await calls.until(session.id, 0, (body) => body.type === "message.delta")
    const before = performance.now()
    const stopped = await calls.post(`/v1/sessions/${session.id}/stop`, {}, 200)
    expect(stopped).toEqual({ prompts: [running.id, waiting.id] })
    await calls.until(session.id, 0, (body) => ended(body, running.id))
    expect(performance.now() - before).toBeLessThan(1_000)
    const next = await calls.prompt(session.id, "pgrep -x sleep || echo none left")
    const events = await calls.until(session.id, 0, (body) => ended(body, next.id))
    expect(textOf(events)).toContain("none left")
    const { prompts } = await calls.get<{ prompts: Prompt[] }>(`/v1/sessions/${session.id}/prompts`)
    expect(prompts.map(({ state }) => state)).toEqual(["stopped", "stopped", "succeeded"])
  })

  it("[R1.7] keeps its sandbox in use while a process runs that its prompt left", async () => {
    const session = await open("first")
    const left = "setsid sleep 988 > /dev/null 2>&1 & echo $!"
    const prompt = await calls.prompt(session.id, left)
    const events = await calls.until(session.id, 0, (body) => ended(body, prompt.id))
    const { sandbox } = await promptOf(session.id, prompt.id)
    const holders = async () =>
      usesAmong((await server.sandbox(sandbox ?? "").get()).leases).map(({ holder }) => holder)
    await expect.poll(holders).toEqual(["processes left running"])
    const next = await calls.prompt(session.id, `kill ${textOf(events)}`)
    await calls.until(session.id, 0, (body) => ended(body, next.id))
    await expect.poll(holders).toEqual([])
  })

  it("brings a prompt's attachments into the sandbox", async () => {
    const session = await open("first")
    const content = Buffer.from([0, 1, 255]).toString("base64")
    const attachments = [{ name: "odd name.bin", content }]
    const prompt = await calls.post<Prompt>(
      ...[
        `/v1/sessions/${session.id}/prompts`,
        { text: "od -An -tu1 ~/attachments/*/*", attachments },
      ],
      202,
    )
    const events = await calls.until(session.id, 0, (body) => ended(body, prompt.id))
    expect(textOf(events).trim().split(/\s+/)).toEqual(["0", "1", "255"])
  })

  it("[R1.9] goes on when the server is killed, and its events have no gap and no repeat", async () => {
    const session = await open("killed")
    const text =
      "for i in 1 2 3 4 5 6 7 8; do echo line $i; sleep 0.3; done; echo ran >> /workspace/ran"
    const prompt = await calls.prompt(session.id, text)
    const seen = await calls.until(session.id, 0, (body) => isDelta(body))
    await server.kill()
    await server.restart()
    const rest = await calls.until(session.id, seen.at(-1)?.sequence ?? 0, (body) =>
      ended(body, prompt.id),
    )
    const events = [...seen, ...rest]
    expect(events.map(({ sequence }) => sequence)).toEqual(events.map((_, index) => index + 1))
    const lines = [1, 2, 3, 4, 5, 6, 7, 8].map((line) => `line ${line}\n`).join("")
    expect(textOf(events)).toBe(lines)
    const next = await calls.prompt(session.id, "cat /workspace/ran")
    const after = await calls.until(session.id, 0, (body) => ended(body, next.id))
    expect(textOf(after)).toBe(`${lines}ran\n`)
  })

  it.concurrent("[R3.5] is interrupted when its sandbox dies, says so, and goes on with its files", async () => {
    const session = await open("dies")
    const prompt = await calls.prompt(session.id, "echo kept > /workspace/kept; echo on; sleep 987")
    await calls.until(session.id, 0, (body) => isDelta(body))
    const { sandbox } = await promptOf(session.id, prompt.id)
    await server.sandbox(sandbox ?? "").commands.run(["true"])
    kill(findInside(SandboxId.parse(sandbox))?.first, "SIGKILL")
    const events = await calls.until(session.id, 0, (body) => ended(body, prompt.id))
    expect(bodies(events).at(-1)).toMatchObject({ state: "interrupted" })
    const next = await calls.prompt(session.id, "cat /workspace/kept")
    const after = await calls.until(session.id, 0, (body) => ended(body, next.id))
    expect(textOf(after)).toBe("on\nkept\n")
    expect((await promptOf(session.id, next.id)).sandbox).not.toBe(sandbox)
  })

  it.concurrent("[R3.3] is stopped within seconds, with what it runs, when the supervisor stands still for good, and the session goes on with its files in another sandbox", async () => {
    const session = await open("mute")
    const nap = new Nap()
    const running = await calls.prompt(session.id, `echo kept > kept; echo on; ${nap}`)
    await calls.until(session.id, 0, isDelta)
    const { sandbox } = await promptOf(session.id, running.id)
    const inside = findInside(SandboxId.parse(sandbox))
    kill(inside?.supervisor, "SIGSTOP")
    expect(await stoppedAfterMs(session.id, running.id)).toBeLessThan(STOPPED_WITHIN_MS)
    expect(nap.isRunning).toBe(false)
    expect(await promptOf(session.id, running.id)).toMatchObject({
      state: "stopped",
      reason: `${sandbox} did not take the stop within 1 s: its processes were ended from outside`,
    })
    const next = await calls.prompt(session.id, "cat kept")
    expect(next).toMatchObject({
      state: "queued",
      waitsFor: { code: "prompt.earlier", message: expect.stringContaining(`${sandbox}`) },
    })
    const after = await calls.until(session.id, 0, (body) => ended(body, next.id))
    expect(textOf(after)).toBe("on\nkept\n")
    expect((await promptOf(session.id, next.id)).sandbox).not.toBe(sandbox)
  })

  it.concurrent("[R3.3] is stopped within seconds, with what it runs, when the supervisor stands still, and its sandbox is left to others who use it", async () => {
    const [session, other] = [await open("shared"), await open("shared")]
    const nap = new Nap()
    const running = await calls.prompt(session.id, `echo on; ${nap}`)
    await calls.until(session.id, 0, isDelta)
    const theirs = await calls.prompt(other.id, "echo on; until [ -e go ]; do sleep 0.02; done")
    await calls.until(other.id, 0, isDelta)
    const { sandbox } = await promptOf(session.id, running.id)
    const background = new Nap()
    await server.sandbox(sandbox ?? "").commands.start(background.command)
    const inside = findInside(SandboxId.parse(sandbox))
    kill(inside?.supervisor, "SIGSTOP")
    expect(await stoppedAfterMs(session.id, running.id)).toBeLessThan(STOPPED_WITHIN_MS)
    expect([nap.isRunning, background.isRunning]).toEqual([false, true])
    const next = await calls.prompt(session.id, "touch go")
    // A prompt of a sandbox that is not reached says so, in its record and by an event.
    const isWaiting = (body: EventBody) => body.type === "prompt.waiting"
    await calls.until(other.id, 0, isWaiting)
    expect(await promptOf(other.id, theirs.id)).toMatchObject({
      state: "running",
      waitsFor: { message: expect.stringContaining(`${sandbox} is not reached`) },
    })
    expect(await promptOf(session.id, next.id)).toMatchObject({ state: "queued", sandbox: null })
    kill(inside?.supervisor, "SIGCONT")
    const after = await calls.until(session.id, 0, (body) => ended(body, next.id))
    expect(bodies(after).filter((body) => ended(body, running.id))).toHaveLength(1)
    const rest = await calls.until(other.id, 0, (body) => ended(body, theirs.id))
    expect(bodies(rest).at(-1)).toMatchObject({ state: "succeeded" })
    expect(await promptOf(other.id, theirs.id)).toMatchObject({ sandbox, waitsFor: null })
    expect((await promptOf(session.id, next.id)).sandbox).toBe(sandbox)
    expect(background.isRunning).toBe(true)
  })

  it("is refused with a typed error for an invalid request, which changes nothing", async () => {
    const session = await open("first")
    const path = `/v1/sessions/${session.id}/prompts`
    const refusals = [
      [path, { text: "" }, 400, "input.invalid"],
      [path, { text: "x".repeat(256 * 1024 + 1) }, 400, "input.invalid"],
      [`/v1/sessions/${newId.session()}/prompts`, { text: "x" }, 404, "session.unknown"],
      ["/v1/sessions", { workspace: "no-such" }, 404, "not_found"],
      [
        ...[
          "/v1/sessions",
          { workspace: { slug: "keys", agent: { kind: "shell", keys: ["NO_KEY"] } } },
        ],
        ...[424, "agent.key_missing"],
      ],
      [
        ...["/v1/sessions", { workspace: workspaceOf("first"), onInterrupt: "continue" }],
        ...[400, "input.invalid"],
      ],
    ] as const
    for (const [at, body, status, code] of refusals)
      expect(await calls.post(at as string, body, status as number)).toMatchObject({ code })
    // A refused request changes nothing.
    expect(await calls.get("/v1/workspaces/keys")).toMatchObject({ code: "not_found" })
  })
}

const isDelta = (body: EventBody): boolean => body.type === "message.delta"

const ended = (body: EventBody, prompt: string): boolean =>
  body.type === "prompt.state" &&
  body.prompt === prompt &&
  body.state !== "queued" &&
  body.state !== "running"
