import { queryObjects } from "node:v8"
import { expect, it } from "vitest"
import { Tasks } from "./tasks.ts"

const setUp = () => {
  const outer = new AbortController()
  return { outer, tasks: new Tasks(outer.signal) }
}

const whenAborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    signal.addEventListener("abort", () => resolve(), { once: true })
  })

it("fires the signal of all work when it is closed, and waits until that has ended", async () => {
  const { tasks } = setUp()
  const ending = Promise.withResolvers<void>()
  const steps: string[] = []
  for (const name of ["one", "two"])
    tasks.begin(async (signal) => {
      await whenAborted(signal)
      steps.push(`${name} is told`)
      await ending.promise
      steps.push(`${name} ends`)
    })
  const closed = tasks.close().then(() => steps.push("closed"))
  await expect.poll(() => steps).toEqual(["one is told", "two is told"])
  ending.resolve()
  await closed
  expect(steps.slice(2)).toEqual(["one ends", "two ends", "closed"])
})

it("fires the signal of all work with the signal that it was given", async () => {
  const { outer, tasks } = setUp()
  const told = Promise.withResolvers<void>()
  tasks.begin(async (signal) => {
    await whenAborted(signal)
    told.resolve()
  })
  outer.abort()
  await told.promise
  await tasks.close()
})

it("takes work that fails as ended", async () => {
  const { tasks } = setUp()
  tasks.begin(() => Promise.reject(new Error("of a test")))
  await tasks.close()
  await tasks.close()
})

it("keeps nothing in memory of work that has ended", async () => {
  const { tasks } = setUp()
  const counted = () => queryObjects(Promise, { format: "count" })
  const before = counted()
  for (let begun = 0; begun < TASKS; begun++) tasks.begin(async () => {})
  await expect.poll(() => counted() - before).toBeLessThan(TASKS / 10)
  await tasks.close()
})

const TASKS = 500
