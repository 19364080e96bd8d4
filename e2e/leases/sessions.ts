import type { Sandbox } from "@berth/sdk/sandboxes"
import type { Session } from "@berth/sdk/sessions"
import { beforeAll, expect, it } from "vitest"
import type { setStage } from "./stage.ts"

type Stage = Awaited<ReturnType<typeof setStage>>

const FOR_LONG = "idlePause: 0\nidleStop: 0\nsessionKeep: 1h\n"
const BRIEFLY = "idlePause: 0\nidleStop: 0\nsessionKeep: 1s\n"
const NOT_AT_ALL = "idlePause: 0\nidleStop: 0\nsessionKeep: 0\n"

/** Covers a start of the server with another configuration. */
const DEADLINE_MS = 120_000

const CHANGED = { A: "2" }

export interface Group {
  readonly what: string
  readonly cases: () => void
}

/** The groups of cases about sessions. Each starts the server again. */
export const sessionLeases = (stage: () => Stage): readonly Group[] => {
  /** Begins a session on a sandbox of its own, and runs its first prompt there. */
  const begin = async (name: string): Promise<{ box: Sandbox; session: Session }> => {
    const box = await stage().make(name)
    const session = await stage().client().sessions.create({ workspace: name })
    await ran(session, "echo first > said")
    return { box, session }
  }

  /** Runs a prompt until it has succeeded, and returns the sandbox in which it ran. */
  const ran = async (session: Session, text: string): Promise<string | null | undefined> => {
    const { id } = await session.prompt(text)
    return await end(session, id)
  }

  const end = async (session: Session, id: string): Promise<string | null | undefined> => {
    const find = async () => (await session.prompts()).find((each) => each.id === id)
    await expect.poll(async () => (await find())?.state).toBe("succeeded")
    return (await find())?.sandbox
  }

  const isWanted = async (name: string): Promise<void> => {
    await expect(stage().create(name, CHANGED, { deadlineMs: 900 })).rejects.toMatchObject({
      code: "workspace.draining",
    })
  }

  const keptForLong = () => {
    beforeAll(() => stage().configure(FOR_LONG), DEADLINE_MS)

    it("[R1.6] [R1.7] go on in their stale sandbox, also after a crash, while prompts of new sessions wait", async () => {
      const { box, session } = await begin("thinking")
      await expect.poll(() => stage().usersOf(box)).toEqual([`session ${session.id}`])
      await stage().outdate(box)
      await expect.poll(() => stage().phaseOf(box)).toBe("draining")
      const again = stage().client().sessions.at(session.id)
      const later = await stage().client().sessions.create({ workspace: "thinking" })
      const waiting = await later.prompt("cat said")
      const reason = `thinking waits for ${box.id}, which is kept for session ${session.id}`
      for await (const { body } of later.events())
        if (body.type === "prompt.waiting" && body.message === reason) break
      const waitsFor = { code: "workspace.draining", message: reason }
      expect(await later.prompts()).toMatchObject([{ state: "queued", waitsFor }])
      expect(await later.get()).toMatchObject({ waitsFor })
      for (const command of ["sessions", "ps"])
        expect((await stage().told(command)).stdout).toContain(reason)
      expect((await stage().told("log", later.id)).stdout).toContain(`(queued: ${reason})`)
      expect(await ran(again, "echo second >> said")).toBe(box.id)
      expect(await stage().phaseOf(box)).toBe("draining")

      await again.close()
      expect(await end(later, waiting.id)).not.toBe(box.id)
      expect(await stage().phaseOf(box)).toBe("gone")
      expect(await later.prompts()).toMatchObject([{ waitsFor: null }])
      const parts = (await later.messages()).turns[0]?.parts
      expect(parts).toContainEqual(
        expect.objectContaining({ kind: "text", text: "first\nsecond\n" }),
      )
    })

    it("let a person stop their sandbox between prompts, but not during a prompt", async () => {
      const { box, session } = await begin("stopped")
      const running = await session.prompt("until [ -e go ]; do sleep 0.02; done")
      await expect.poll(() => stage().usersOf(box)).toContain(`prompt ${running.id}`)
      expect(await stage().told("stop", "stopped")).toMatchObject({
        status: 1,
        stderr: expect.stringContaining(`is used by`),
      })
      await box.files.write("go", "")
      await end(session, running.id)
      await expect.poll(() => stage().usersOf(box)).toEqual([`session ${session.id}`])
      expect(await stage().told("stop", "stopped")).toMatchObject({ status: 0, stderr: "" })
      expect(await ran(session, "cat said")).not.toBe(box.id)
    })
  }

  const keptBriefly = () => {
    beforeAll(() => stage().configure(BRIEFLY), DEADLINE_MS)

    it("[R1.6] give a stale sandbox up for its replacement when they have had no prompt for that time", async () => {
      const { box, session } = await begin("brief")
      await stage().outdate(box)
      await expect.poll(() => stage().phaseOf(box)).toBe("gone")
      expect(await ran(stage().client().sessions.at(session.id), "cat said")).not.toBe(box.id)
    })
  }

  const notKept = () => {
    beforeAll(() => stage().configure(NOT_AT_ALL), DEADLINE_MS)

    it("[R1.7] keep their sandbox only while a client watches them", async () => {
      const { box, session } = await begin("watched")
      const watching = new AbortController()
      const events = session.events({ signal: watching.signal })[Symbol.asyncIterator]()
      await events.next()
      const user = `whoever watches ${session.id}`
      await expect.poll(() => stage().usersOf(box)).toEqual([user])
      await isWanted("watched")
      expect(await stage().told("stop", "watched")).toMatchObject({
        status: 1,
        stderr: expect.stringContaining(`is used by ${user}`),
      })
      expect(await ran(session, "cat said")).toBe(box.id)
      watching.abort()
      await stage().create("watched", CHANGED)
      expect(await stage().phaseOf(box)).toBe("gone")
    })
  }

  return [
    { what: "sessions that are kept for long", cases: keptForLong },
    { what: "sessions that are kept briefly", cases: keptBriefly },
    { what: "sessions that are not kept", cases: notKept },
  ]
}
