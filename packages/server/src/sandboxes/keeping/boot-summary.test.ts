import { MAX_BOOT_STEPS } from "@berth/protocol/boot-limits"
import type { EventBody } from "@berth/protocol/event"
import { expect, it } from "vitest"
import { begunBoot, follow } from "./boot-summary.ts"

const started = (step: string): EventBody => ({ type: "boot.step.started", atMs: 1, step })
const ended: EventBody = { type: "boot.ended", atMs: 2, outcome: "succeeded" }

it("has no more running steps than a boot may have, whatever its sandbox says", () => {
  const many = Array.from({ length: 10 * MAX_BOOT_STEPS }, (_, number) => started(`s${number}`))
  expect(many.reduce(follow, begunBoot("fresh")).running).toHaveLength(MAX_BOOT_STEPS)
})

it("has no running step once the boot has ended, even if its sandbox begins one", () => {
  const booting = follow(begunBoot("fresh"), started("git-sync"))
  expect(booting.running).toEqual(["git-sync"])
  expect([ended, started("late")].reduce(follow, booting).running).toEqual([])
})
