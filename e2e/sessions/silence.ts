import { readdirSync, readFileSync } from "node:fs"
import { MARK_VARIABLE } from "@berth/protocol/process-mark"
import { expect, it, onTestFinished } from "vitest"
import { findInside, kill } from "../crash/inside.ts"
import { type AgentName, HANG, SAW_A_BIRD } from "./agents.ts"
import { statesOf, textOf } from "./read-events.ts"
import { DEADLINE_MS, eventsUntil, promptToEnd, type Stage } from "./stage.ts"

/** Prompts to agents whose supervisor does not answer. */
export const describeSilence = (stage: () => Stage, names: readonly AgentName[]) => {
  for (const name of names)
    it(
      `[R3.3] ${name} is ended from outside when its prompt is stopped and its supervisor does not answer, and takes the next prompt`,
      async () => {
        const { sessions } = stage().server.client()
        const session = await sessions.create({ workspace: stage().workspace(name) })
        const { id } = await session.prompt(HANG)
        await eventsUntil(session, (body) => body.type === "message.delta")
        const sandbox = await stage().sandbox(name)
        const held = await sandbox.hold({ holder: "a test", forMs: DEADLINE_MS })
        onTestFinished(() => sandbox.release(held.id))
        const { supervisor } = findInside(sandbox.id) ?? expect.unreachable("it runs")
        const goOn = () => void kill(supervisor, "SIGCONT")
        onTestFinished(goOn)
        expect(agentsOf(supervisor)).not.toEqual([])
        kill(supervisor, "SIGSTOP")
        await session.stop()
        const isStopped = async () => (await session.prompts())[0]?.state === "stopped"
        await expect.poll(isStopped, { timeout: 10_000 }).toBe(true)
        expect(agentsOf(supervisor)).toEqual([])
        goOn()
        const events = await promptToEnd(session, SAW_A_BIRD)
        const told = JSON.stringify(events, null, 1)
        expect(textOf(events), told).toMatch(/A fine bird\.$/)
        const own = events.filter(({ body }) => "prompt" in body && body.prompt === id)
        expect(statesOf(own), told).toEqual(["queued", "running", "stopped"])
        const [, next] = await session.prompts()
        expect(next).toMatchObject({ state: "succeeded", sandbox: sandbox.id })
      },
      DEADLINE_MS,
    )
}

/** The agent's processes among the children of a supervisor. */
const agentsOf = (supervisor: number): string[] =>
  readdirSync("/proc").filter((pid) => {
    try {
      const isChild =
        readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ")[1] === `${supervisor}`
      return (
        isChild && readFileSync(`/proc/${pid}/environ`, "utf8").includes(`${MARK_VARIABLE}=agent-`)
      )
    } catch {
      return false
    }
  })
