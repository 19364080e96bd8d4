import { setTimeout as pause } from "node:timers/promises"
import { expect, it } from "vitest"
import { Wakeup } from "./wakeup.ts"

const TIME_MS = 20
const FOR_EVER = Number.POSITIVE_INFINITY

/** Begins to sleep, and returns whether that is over. */
const sleeping = (wakeup: Wakeup, ms: number) => {
  const sleep = { isOver: false }
  void wakeup.sleep(ms).then(() => {
    sleep.isOver = true
  })
  return sleep
}

it("sleeps until it is woken, if the time has no end", async () => {
  const wakeup = new Wakeup()
  const sleep = sleeping(wakeup, FOR_EVER)
  await pause(TIME_MS)
  expect(sleep.isOver).toBe(false)
  wakeup.wake()
  await expect.poll(() => sleep.isOver).toBe(true)
})

it("does not sleep if it was woken before, and sleeps again after that", async () => {
  const wakeup = new Wakeup()
  wakeup.wake()
  wakeup.wake()
  await wakeup.sleep(FOR_EVER)
  const next = sleeping(wakeup, FOR_EVER)
  await pause(0)
  expect(next.isOver).toBe(false)
})

it("sleeps again after a sleep that a wake ended", async () => {
  const wakeup = new Wakeup()
  const first = wakeup.sleep(FOR_EVER)
  wakeup.wake()
  await first
  const next = sleeping(wakeup, FOR_EVER)
  await pause(0)
  expect(next.isOver).toBe(false)
})

it("sleeps for its time, and no longer", async () => {
  const wakeup = new Wakeup()
  const sleep = sleeping(wakeup, TIME_MS)
  await pause(0)
  expect(sleep.isOver).toBe(false)
  await expect.poll(() => sleep.isOver).toBe(true)
  await wakeup.sleep(-1)
})
