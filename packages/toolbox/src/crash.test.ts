import { chmodSync, readdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { startChild } from "@berth/testing/child"
import { sampled } from "@berth/testing/sampled"
import { describe, expect, it } from "vitest"
import { makeInputs } from "./testing/fake-inputs.ts"
import { makeDirectory, namesLeft, openForTest } from "./testing/open-for-test.ts"

const CHILD = join(import.meta.dirname, "testing/build-child.ts")

interface Line {
  readonly step?: string
  readonly done?: unknown
}

const start = (operation: "build" | "collect", root: string, at: object = {}) =>
  startChild(CHILD, {
    args: [operation, root, join(makeDirectory(), "inputs"), JSON.stringify(at)],
  })

/** Runs an operation, and returns its steps and its outcome. */
const play = async (operation: "build" | "collect", root: string, at: object = {}) => {
  const lines = await start(operation, root, at).rest<Line>()
  return {
    steps: lines.flatMap(({ step }) => step ?? []),
    done: lines.at(-1)?.done,
  }
}

/** Changes a file that no user may write, also where an ordinary user runs the test. */
const change = (file: string) => {
  chmodSync(file, 0o644)
  writeFileSync(file, "changed")
}

/** Runs two builders that go on together from a step, and returns the outcomes of both. */
const race = async (root: string, waitAt: string) => {
  const both = [start("build", root, { waitAt }), start("build", root, { waitAt })]
  for (const each of both) {
    for (let at: Line = {}; at.step !== waitAt; ) at = await each.next<Line>()
  }
  for (const each of both) each.tell("go")
  return await Promise.all(both.map(async (each) => (await each.rest<Line>()).at(-1)?.done))
}

describe("a builder that is killed", () => {
  it.each(["an absent", "a changed"])(
    "[R2.6] at a step of making %s toolbox leaves no half of it, and the next builder makes it",
    async (which) => {
      const { root, toolboxes, inputs, signal } = openForTest()
      const prepare = async () => {
        await toolboxes.collect(new Set())
        if (which === "an absent") return
        const { directory } = await toolboxes.build(inputs, { signal })
        change(join(directory, "bin/node"))
      }
      await prepare()
      const { steps, done } = await play("build", root)
      const outcome = which === "an absent" ? "built" : "rebuilt"
      expect(done).toMatchObject({ outcome })
      expect(steps.includes("set aside")).toBe(outcome === "rebuilt")
      for (const step of sampled(`crash points of making ${which} toolbox`, steps, 4)) {
        await prepare()
        expect(await play("build", root, { dieAt: step })).toMatchObject({ done: undefined })
        for (const id of await toolboxes.ids()) {
          const { status } = await toolboxes.verify(id, { signal })
          const mayBeChanged = outcome === "rebuilt" && !["installed", "sealed"].includes(step)
          expect([step, status]).toEqual([step, mayBeChanged ? "changed" : "intact"])
        }
        const { id } = await toolboxes.build(makeInputs(join(makeDirectory(), "inputs")), {
          signal,
        })
        expect((await toolboxes.verify(id, { signal })).status, step).toBe("intact")
        const aside = namesLeft(root).filter((name) => name.startsWith("changed-"))
        expect(namesLeft(root), step).toEqual([...aside, id])
      }
    },
    60_000,
  )
})

describe("a collector that is killed", () => {
  it("at any step leaves no half of a toolbox listed, and the next collector finishes", async () => {
    const { root, toolboxes, inputs, signal } = openForTest()
    await toolboxes.build(inputs, { signal })
    const { steps } = await play("collect", root)
    expect(steps).toEqual(["renamed", "removed"])
    for (const step of steps) {
      const { id } = await toolboxes.build(inputs, { signal })
      await play("collect", root, { dieAt: step })
      expect(await toolboxes.ids(), step).toEqual([])
      await expect(toolboxes.open(id, { signal })).rejects.toMatchObject({
        code: "toolbox.unknown",
      })
      await toolboxes.collect(new Set())
      expect(namesLeft(root), step).toEqual([])
      expect(readdirSync(join(root, "seals")), step).toEqual([])
    }
  })
})

describe("two builders at once", () => {
  it.each(["described", "staged", "flushed"])(
    "that meet at %s both succeed, and leave one toolbox",
    async (waitAt) => {
      const { root, toolboxes, signal } = openForTest()
      const done = await race(root, waitAt)
      const [id] = await toolboxes.ids()
      expect(done).toEqual([
        { id, outcome: "built" },
        { id, outcome: "built" },
      ])
      expect(namesLeft(root)).toEqual([id])
      expect((await toolboxes.verify(id as never, { signal })).status).toBe("intact")
    },
  )

  it("that both find a changed toolbox both succeed, and leave one intact toolbox", async () => {
    const { root, toolboxes, inputs, signal } = openForTest()
    const { id, directory } = await toolboxes.build(inputs, { signal })
    change(join(directory, "bin/node"))
    const done = await race(root, "flushed")
    expect(done).toEqual([
      { id, outcome: "rebuilt" },
      { id, outcome: "rebuilt" },
    ])
    expect(await toolboxes.ids()).toEqual([id])
    expect((await toolboxes.verify(id, { signal })).status).toBe("intact")
  })

  it("in one process make one toolbox", async () => {
    const { root, toolboxes, inputs, signal } = openForTest()
    const built = await Promise.all([1, 2, 3].map(() => toolboxes.build(inputs, { signal })))
    expect(new Set(built.map(({ id }) => id)).size).toBe(1)
    expect(namesLeft(root)).toEqual([built[0]?.id])
  })
})
