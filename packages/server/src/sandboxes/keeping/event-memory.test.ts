import type { Event } from "@berth/protocol/event"
import { describe, expect, it } from "vitest"
import { EventMemory } from "./event-memory.ts"

const at = "2026-01-01T00:00:00.000Z"
const warning = (sequence: number, message: string): Event => ({
  sequence,
  at,
  body: { type: "warning", message },
})
const says = (message: string) => (body: Event["body"]) =>
  body.type === "warning" && body.message === message

describe("EventMemory", () => {
  it("finds an event that has come, and one that is to come", async () => {
    const heard = new EventMemory()
    heard.add([warning(1, "a")])
    expect(await heard.until(says("a"))).toMatchObject({ message: "a" })
    const later = heard.until(says("c"))
    heard.add([warning(2, "b"), warning(3, "c")])
    expect(await later).toMatchObject({ message: "c" })
  })

  it("forgets the oldest events, by number and by size, and still finds later ones", async () => {
    const heard = new EventMemory()
    const last = heard.until(says("last"))
    heard.add(Array.from({ length: 20_000 }, (_, place) => warning(place + 1, "x")))
    expect(heard.events.length).toBe(10_000)
    expect(heard.events[0]?.sequence).toBe(10_001)
    for (let place = 0; place < 100; place++)
      heard.add([warning(20_001 + place, "y".repeat(200_000))])
    expect(heard.events.length).toBeLessThan(50)
    heard.add([warning(20_101, "last")])
    expect(await last).toMatchObject({ message: "last" })
  })

  it("fails present and later waits once it has ended", async () => {
    const heard = new EventMemory()
    const never = heard.until(says("a"))
    heard.end(new Error("over"))
    await expect(never).rejects.toThrow("over")
    await expect(heard.until(says("a"))).rejects.toThrow("over")
  })
})
