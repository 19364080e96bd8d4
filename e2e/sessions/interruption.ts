import { SandboxId } from "@berth/protocol/ids"
import { expect, it } from "vitest"
import { findInside, kill } from "../crash/inside.ts"
import { NOTE_IT } from "./agents.ts"
import { ofType, textOf } from "./read-events.ts"
import { DEADLINE_MS, eventsUntil, type Stage } from "./stage.ts"

/** Adds the case of an agent whose sandbox is killed while it works. */
export const describeInterruption = (stage: () => Stage) => {
  it(
    "[R3.4] [R3.5] opencode goes on where it was when its sandbox is killed, and repeats nothing",
    async () => {
      const workspace = stage().workspace("opencode")
      const { sessions } = stage().server.client()
      const session = await sessions.create({ workspace, onInterrupt: "continue" })
      const { id } = await session.prompt(NOTE_IT)
      await eventsUntil(session, ({ type }) => type === "message.delta")
      const first = await stage().sandbox(workspace.slug)
      kill(findInside(SandboxId.parse(first.id))?.first, "SIGKILL")

      const events = await eventsUntil(
        session,
        (body) => body.type === "prompt.state" && body.state === "succeeded",
      )
      const told = JSON.stringify(events, null, 1)
      const second = await stage().sandbox(workspace.slug)
      expect(await session.prompts(), told).toMatchObject([
        { id, state: "interrupted", sandbox: first.id, reason: expect.stringContaining("sandbox") },
        { continues: id, state: "succeeded", sandbox: second.id },
      ])
      expect(second.id).not.toBe(first.id)

      // The first turn wrote a note, the second one read it.
      const [, read, ...others] = ofType(events, "tool.completed")
      expect(read, told).toMatchObject({ failed: false, output: "noted\n" })
      expect(others, told).toEqual([])
      expect(textOf(events), told).toMatch(/I went on\.$/)
      expect(await second.files.readText("app/notes.txt")).toBe("noted\n")
      // The model is asked with the whole conversation.
      const said = (await stage().asked(workspace.slug)).at(-1)?.userTexts ?? []
      const words = [NOTE_IT, "You were interrupted"]
      expect(said.flatMap((text) => words.filter((each) => text.includes(each)))).toEqual(words)
    },
    DEADLINE_MS,
  )
}
