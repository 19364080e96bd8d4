import { expect, it } from "vitest"
import { ManualClock } from "../processes/testing/manual-clock.ts"
import { MANY_COMMANDS, TIDY_AFTER_MS, Tidy } from "./tidy.ts"

it("collects garbage once after many commands at once, when none runs any more", async () => {
  const clock = new ManualClock()
  let collected = 0
  const tidy = new Tidy(clock, () => void collected++)
  for (const running of [1, 2, 1, 0]) tidy.onCount(running)
  await clock.advance(TIDY_AFTER_MS)
  expect(collected).toBe(0)
  for (const running of [MANY_COMMANDS, 1, 0, 1]) tidy.onCount(running)
  await clock.advance(TIDY_AFTER_MS)
  expect(collected).toBe(0)
  tidy.onCount(0)
  await clock.advance(TIDY_AFTER_MS)
  tidy.onCount(1)
  tidy.onCount(0)
  await clock.advance(TIDY_AFTER_MS)
  expect(collected).toBe(1)
})

it("does not collect for a sandbox that goes down", async () => {
  const clock = new ManualClock()
  const tidy = new Tidy(clock, () => expect.unreachable())
  for (const running of [MANY_COMMANDS, 0]) tidy.onCount(running)
  tidy.close()
  await clock.advance(TIDY_AFTER_MS)
})
