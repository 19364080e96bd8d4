import type { Event, EventBody } from "@berth/protocol/event"
import { afterAll, beforeAll, expect, it } from "vitest"
import {
  AGENTS,
  type AgentName,
  BE_REFUSED,
  KEY,
  MAKE_A_FILE,
  SAW_A_BIRD,
  WHICH_BIRD,
} from "./agents.ts"
import { promptToEnd, type Stage } from "./stage.ts"

/** A toolbox is built, a system of a gigabyte is put together, and on Docker imported, beside other tests. */
const STAGE_DEADLINE_MS = 240_000
/** A sandbox boots with an agent that takes seconds of two cores, beside other tests. */
const DEADLINE_MS = 180_000

/** Codex asks some times more, even when it is refused. */
const REFUSAL_LIMIT_MS = 30_000

const NAMES = Object.keys(AGENTS) as AgentName[]
/** Each keeps its memory in a way of its own; OpenCode has one, whichever way it is spoken to. */
const MEMORIES = ["opencode", "claude", "codex"] as const satisfies AgentName[]

type Body<Type extends EventBody["type"]> = Extract<EventBody, { type: Type }>

const ofType = <Type extends EventBody["type"]>(events: readonly Event[], type: Type) =>
  events.map(({ body }) => body).filter((body): body is Body<Type> => body.type === type)

const statesOf = (events: readonly Event[]) =>
  ofType(events, "prompt.state").map(({ state }) => state)

const textOf = (events: readonly Event[]) =>
  ofType(events, "message.delta")
    .map(({ text }) => text)
    .join("")

/** Where the first event is that fits. */
const placeOf = (events: readonly Event[], fits: (body: EventBody) => boolean): number =>
  events.findIndex(({ body }) => fits(body))

/** The same with each of them, wherever its sandbox is made. */
export const describeAgents = (open: () => Promise<Stage>) => {
  let stage: Stage
  beforeAll(async () => {
    stage = await open()
  }, STAGE_DEADLINE_MS)
  afterAll(() => stage?.close(), STAGE_DEADLINE_MS)

  for (const name of NAMES)
    it(
      `[R3.2] [R3.6] ${name} writes a file and runs a command, and all that it does is told in order`,
      async () => {
        const { sessions } = stage.server.client()
        const session = await sessions.create({ workspace: stage.workspace(name) })
        const events = await promptToEnd(session, MAKE_A_FILE)
        const told = JSON.stringify(events, null, 1)
        expect(statesOf(events), told).toEqual(["queued", "running", "succeeded"])
        expect(events.map(({ sequence }) => sequence)).toEqual(events.map((_, at) => at + 1))

        const calls = ofType(events, "tool.started")
        expect(calls, told).toHaveLength(2)
        const ends = calls.map(({ call }) => {
          const from = placeOf(events, (body) => body.type === "tool.started" && body.call === call)
          const to = placeOf(events, (body) => body.type === "tool.completed" && body.call === call)
          expect(from, told).toBeLessThan(to)
          return to
        })
        expect(Math.max(...ends), told).toBeLessThan(placeOf(events, isLastWord))
        const [, read] = ofType(events, "tool.completed")
        expect(read, told).toMatchObject({ failed: false, output: expect.stringContaining("made") })
        // In pieces, as the model says it, and none of them twice. Codex says first that it does not know the model.
        expect(textOf(events).replace(/^Warning: .*\n\n/, ""), told).toBe("It is made.")
        expect(ofType(events, "message.delta").length, told).toBeGreaterThan(1)
        expect(ofType(events, "message.completed").length, told).toBeGreaterThan(0)
        const usage = ofType(events, "usage").at(-1)
        expect(usage?.inputTokens, told).toBeGreaterThan(0)
        expect(usage?.outputTokens).toBeGreaterThan(0)

        const sandbox = await stage.sandbox(name)
        expect(await sandbox.git.diff("app")).toContain("+++ b/made.txt\n@@ -0,0 +1 @@\n+made\n")
        const asked = await stage.asked(name)
        expect(asked.at(-1)?.toolResults.at(-1)).toContain("made")
        expect(asked.map(({ key }) => key)).toEqual(asked.map(() => KEY))
        expect(told).not.toContain(KEY)
      },
      DEADLINE_MS,
    )

  for (const name of MEMORIES)
    it(
      `[R3.5] ${name} remembers what was said to it before its sandbox was replaced, and has its files`,
      async () => {
        const { sessions, sandboxes } = stage.server.client()
        const slug = `${name}-replaced`
        const workspace = { ...stage.workspace(name), slug }
        const session = await sessions.create({ workspace })
        expect(statesOf(await promptToEnd(session, SAW_A_BIRD)).at(-1)).toBe("succeeded")
        const first = await stage.sandbox(slug)
        await first.files.write("app/mine", "kept\n")

        const environment = { ...workspace.environment, CHANGED: "yes" }
        await sandboxes.create({ workspace: { ...workspace, environment } })
        const events = await promptToEnd(session, WHICH_BIRD)
        expect(textOf(events), JSON.stringify(events, null, 1)).toMatch(/A heron\.$/)
        const second = await stage.sandbox(slug)
        expect(second.id).not.toBe(first.id)
        const [one, two] = await session.prompts()
        expect([one?.sandbox, two?.sandbox]).toEqual([first.id, second.id])
        expect(await second.commands.run("echo $CHANGED; cat app/mine")).toMatchObject({
          stdout: "yes\nkept\n",
        })
        const said = (await stage.asked(slug)).at(-1)?.userTexts ?? []
        expect(
          said.flatMap((text) => [SAW_A_BIRD, WHICH_BIRD].filter((words) => text.includes(words))),
        ).toEqual([SAW_A_BIRD, WHICH_BIRD])
        await second.remove({ force: true })
      },
      DEADLINE_MS,
    )

  for (const name of NAMES)
    it(
      `${name} says at once that its model refuses it`,
      async () => {
        const session = await stage.server
          .client()
          .sessions.create({ workspace: stage.workspace(name) })
        const events = await promptToEnd(session, BE_REFUSED)
        const told = JSON.stringify(events, null, 1)
        expect(statesOf(events), told).toEqual(["queued", "running", "failed"])
        expect(ofType(events, "error"), told).toMatchObject([
          { code: "agent.failed", message: expect.stringContaining(AGENTS[name].refused) },
        ])
        const [prompt] = await session.prompts()
        const [started, ended] = [prompt?.startedAt, prompt?.endedAt].map((at) =>
          Date.parse(at ?? ""),
        )
        expect(Number(ended) - Number(started)).toBeLessThan(REFUSAL_LIMIT_MS)
      },
      DEADLINE_MS,
    )

  it("says which key is missing", async () => {
    const workspace = { ...stage.workspace("opencode"), slug: "keyless" }
    const agent = { kind: "opencode" as const, keys: ["NOT_THERE"] }
    await expect(
      stage.server.client().sessions.create({ workspace: { ...workspace, agent } }),
    ).rejects.toMatchObject({ code: "agent.key_missing", details: { keys: ["NOT_THERE"] } })
  })
}

const isLastWord = (body: EventBody): boolean =>
  body.type === "message.delta" && body.text.endsWith("made.")
