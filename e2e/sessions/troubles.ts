import { expect, it } from "vitest"
import { AGENTS, type AgentName, BE_REFUSED, FAULTS } from "./agents.ts"
import { ofType, statesOf, textOf } from "./read-events.ts"
import { DEADLINE_MS, promptToEnd, type Stage } from "./stage.ts"

/** Codex asks several times, even when it is refused. */
const REFUSAL_LIMIT_MS = 30_000

/** Adds the cases of agents whose models fail. */
export const describeTroubles = (stage: () => Stage, names: readonly AgentName[]) => {
  for (const name of names)
    it(
      `${name} says within ${REFUSAL_LIMIT_MS / 1_000} s that its model refuses it`,
      async () => {
        const session = await stage()
          .server.client()
          .sessions.create({ workspace: stage().workspace(name) })
        const events = await promptToEnd(session, BE_REFUSED)
        const told = JSON.stringify(events, null, 1)
        expect(statesOf(events), told).toEqual(["queued", "running", "failed"])
        expect(ofType(events, "error"), told).toMatchObject([
          {
            code: AGENTS[name].refusal,
            message: expect.stringContaining(AGENTS[name].refused),
          },
        ])
        const [prompt] = await session.prompts()
        const [started, ended] = [prompt?.startedAt, prompt?.endedAt].map((at) =>
          Date.parse(at ?? ""),
        )
        expect(Number(ended) - Number(started)).toBeLessThan(REFUSAL_LIMIT_MS)
      },
      DEADLINE_MS,
    )

  for (const name of names)
    it(
      `${name} goes on when its model is late, refuses for now or breaks off, and goes on or fails when its model is unclear`,
      async () => {
        const { sessions } = stage().server.client()
        const workspace = stage().workspace(name)
        // Each fault has a session of its own, so that the waits before the next request run at the same time.
        const inSession = async (fault: string) => {
          const session = await sessions.create({ workspace })
          return { fault, events: await promptToEnd(session, fault) }
        }
        for (const { fault, events } of await Promise.all(Object.keys(FAULTS).map(inSession))) {
          const told = JSON.stringify(events, null, 1)
          if (fault === AGENTS[name].givesUp) {
            expect(statesOf(events).at(-1), told).toBe("failed")
            expect(ofType(events, "error"), told).toMatchObject([{ code: "agent.failed" }])
          } else {
            expect(statesOf(events).at(-1), told).toBe("succeeded")
            expect(textOf(events), told).toMatch(/I am here\.$/)
          }
        }
      },
      DEADLINE_MS,
    )

  it("a session is refused with the name of a missing key", async () => {
    const workspace = { ...stage().workspace("opencode"), slug: "keyless" }
    const agent = { kind: "opencode" as const, keys: ["NOT_THERE"] }
    await expect(
      stage()
        .server.client()
        .sessions.create({ workspace: { ...workspace, agent } }),
    ).rejects.toMatchObject({ code: "agent.key_missing", details: { keys: ["NOT_THERE"] } })
  })
}
