import type { Event } from "@berth/protocol/event"
import { newId } from "@berth/protocol/ids"
import { expect, it } from "vitest"
import { Turns } from "../events/turns.ts"
import { EventQueue, type Said } from "./event-queue.ts"

const saying = (count: number): Said => ({
  sandbox: newId.sandbox(),
  events: Array.from({ length: count }, () => ({}) as Event),
})

const setUp = (store: (group: readonly Said[]) => void = () => {}) => {
  const groups: number[][] = []
  const queue = new EventQueue(new Turns(), async (group) => {
    groups.push(group.map(({ events }) => events.length))
    store(group)
  })
  return { queue, groups }
}

it("stores together what waits at the same time", async () => {
  const { queue, groups } = setUp()
  await Promise.all([1, 2, 3].map((count) => queue.put(saying(count))))
  expect(groups).toEqual([[1, 2, 3]])
})

it("stores a group when it has enough events", async () => {
  const { queue, groups } = setUp()
  await Promise.all([500, 20, 1, 1_000, 1].map((count) => queue.put(saying(count))))
  expect(groups).toEqual([[500, 20], [1, 1_000], [1]])
})

it("refuses only the events of the sandbox that cannot be stored", async () => {
  const wrong = saying(1)
  const { queue, groups } = setUp((group) => {
    if (group.some(({ sandbox }) => sandbox === wrong.sandbox))
      throw new Error("it cannot be stored")
  })
  const puts = [saying(2), wrong, saying(3)].map((said) => queue.put(said))
  expect((await Promise.allSettled(puts)).map(({ status }) => status)).toEqual([
    "fulfilled",
    "rejected",
    "fulfilled",
  ])
  expect(groups).toEqual([[2, 1, 3], [2], [1], [3]])
  await queue.put(saying(4))
  expect(groups.at(-1)).toEqual([4])
})
