import type { Event, EventBody } from "@berth/protocol/event"
import { sampled } from "@berth/testing/sampled"
import { expect, it } from "vitest"
import { type AgentName, KEY, MAKE_A_FILE, SAW_A_BIRD, WHICH_BIRD } from "./agents.ts"
import { ofType, statesOf, textOf } from "./read-events.ts"
import { DEADLINE_MS, promptToEnd, type Stage } from "./stage.ts"

/** The agents that keep their memory, each in a way of its own. OpenCode has the same way for both protocols. */
const MEMORIES = ["opencode", "claude", "codex"] as const satisfies AgentName[]

/** The place of the first event that fits. */
const placeOf = (events: readonly Event[], fits: (body: EventBody) => boolean): number =>
  events.findIndex(({ body }) => fits(body))

/** Cases of agents at work, and of one agent that remembers; in a whole run, of all that remember. */
export const describeWork = (stage: () => Stage, backend: string, names: readonly AgentName[]) => {
  for (const name of names)
    it(
      `[R3.2] [R3.6] ${name} writes a file and runs a command, and its events come in order`,
      async () => {
        const { sessions } = stage().server.client()
        const session = await sessions.create({ workspace: stage().workspace(name) })
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
        // The text comes in pieces, none of them twice. Codex first says that it does not know the model.
        expect(textOf(events).replace(/^Warning: .*\n\n/, ""), told).toBe("It is made.")
        expect(ofType(events, "message.delta").length, told).toBeGreaterThan(1)
        expect(ofType(events, "message.completed").length, told).toBeGreaterThan(0)
        const usage = ofType(events, "usage").at(-1)
        expect(usage?.inputTokens, told).toBeGreaterThan(0)
        expect(usage?.outputTokens).toBeGreaterThan(0)

        const sandbox = await stage().sandbox(name)
        expect(await sandbox.git.diff("app")).toContain("+++ b/made.txt\n@@ -0,0 +1 @@\n+made\n")
        const asked = await stage().asked(name)
        expect(asked.at(-1)?.toolResults.at(-1)).toContain("made")
        expect(asked.map(({ key }) => key)).toEqual(asked.map(() => KEY))
        expect(told).not.toContain(KEY)
      },
      DEADLINE_MS,
    )

  const able = MEMORIES.filter((name) => names.includes(name))
  const remembering = sampled(`agents that remember, ${backend}`, able, 1)
  for (const name of remembering)
    it(
      `[R3.5] ${name} remembers its conversation after its sandbox was replaced, and has its files`,
      async () => {
        const { sessions, sandboxes } = stage().server.client()
        // Its sandbox is there from the test before, if that ran.
        const workspace = stage().workspace(name)
        const session = await sessions.create({ workspace })
        expect(statesOf(await promptToEnd(session, SAW_A_BIRD)).at(-1)).toBe("succeeded")
        const first = await stage().sandbox(name)
        await first.files.write("app/mine", "kept\n")

        const environment = { ...workspace.environment, CHANGED: "yes" }
        await sandboxes.create({ workspace: { ...workspace, environment } })
        const events = await promptToEnd(session, WHICH_BIRD)
        expect(textOf(events), JSON.stringify(events, null, 1)).toMatch(/A heron\.$/)
        const second = await stage().sandbox(name)
        expect(second.id).not.toBe(first.id)
        const [one, two] = await session.prompts()
        expect([one?.sandbox, two?.sandbox]).toEqual([first.id, second.id])
        expect(await second.commands.run("echo $CHANGED; cat /workspace/app/mine")).toMatchObject({
          stdout: "yes\nkept\n",
        })
        const said = (await stage().asked(name)).at(-1)?.userTexts ?? []
        expect(
          said.flatMap((text) => [SAW_A_BIRD, WHICH_BIRD].filter((words) => text.includes(words))),
        ).toEqual([SAW_A_BIRD, WHICH_BIRD])
        await second.remove({ force: true })
      },
      DEADLINE_MS,
    )
}

const isLastWord = (body: EventBody): boolean =>
  body.type === "message.delta" && body.text.endsWith("made.")
