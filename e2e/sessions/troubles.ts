import { sampled } from "@berth/testing/sampled"
import { expect, it } from "vitest"
import { AGENTS, BE_REFUSED, FAULTS, NAMES } from "./agents.ts"
import { ofType, statesOf, textOf } from "./read-events.ts"
import { DEADLINE_MS, promptToEnd, type Stage } from "./stage.ts"

/** Codex asks some times more, even when it is refused. */
const REFUSAL_LIMIT_MS = 30_000

/** What comes of agents whose models fail them. */
export const describeTroubles = (stage: () => Stage) => {
  for (const name of sampled("agents whose model refuses", NAMES, 2))
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

  for (const name of sampled("agents whose model fails", NAMES, 2))
    it(
      `${name} goes on when its model is late, refuses for now, breaks off or is unclear`,
      async () => {
        const { sessions } = stage().server.client()
        const session = await sessions.create({ workspace: stage().workspace(name) })
        for (const fault of Object.keys(FAULTS)) {
          const { lastEvent } = await session.get()
          const events = (await promptToEnd(session, fault)).slice(lastEvent)
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

  it("says which key is missing", async () => {
    const workspace = { ...stage().workspace("opencode"), slug: "keyless" }
    const agent = { kind: "opencode" as const, keys: ["NOT_THERE"] }
    await expect(
      stage()
        .server.client()
        .sessions.create({ workspace: { ...workspace, agent } }),
    ).rejects.toMatchObject({ code: "agent.key_missing", details: { keys: ["NOT_THERE"] } })
  })
}
