import { tmpdir } from "node:os"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { systemClock } from "../clock.ts"
import { type Launched, launch } from "../launch.ts"
import { Family } from "../testing/family.ts"
import { endTree } from "./end.ts"
import { Lookout } from "./lookout.ts"

const never = new AbortController().signal
let family: Family
beforeEach(() => {
  family = new Family()
})
afterEach(() => family.killAll())

const calm = async () => {}

const start = async (script: string): Promise<Launched> => {
  const launched = await launch(
    { command: ["/bin/sh", "-c", script], env: family.env, cwd: tmpdir() },
    { conversation: false, signal: never },
  )
  await new Promise<void>((resolve) => {
    launched.output.listen((chunk) => String(chunk).includes("up") && resolve())
  })
  return launched
}

/** A script that leaves a process which escaped from it, and ends. */
const LEFT = "setsid sh -c 'setsid sleep 1000 & echo up' & wait"

describe("Lookout", () => {
  it("[R2.14] ends each tree and no other, though all are looked for at once", async () => {
    const lookout = new Lookout(undefined, calm)
    const ended = await Promise.all(Array.from({ length: 8 }, () => start(LEFT)))
    const kept = await Promise.all([start(LEFT), start("echo up; exec sleep 1000")])
    for (const { exited } of [...ended, kept[0]]) await exited
    const options = { clock: systemClock, graceMs: 5_000 }
    const ends = await Promise.all(ended.map(({ tree }) => endTree(lookout.over(tree), options)))
    expect(ends).toEqual(Array.from({ length: 8 }, () => ({ asked: 1, killed: 0, left: [] })))
    expect(family.running()).toHaveLength(2)
    await Promise.all(kept.map(({ tree }) => endTree(lookout.over(tree), options)))
    expect(family.running()).toEqual([])
    for (const { output } of [...ended, ...kept]) output.close()
  })

  it("does not wait for ever for urgent work to end", async () => {
    const urgent = Promise.withResolvers<void>()
    const tree = await start("echo up")
    await tree.exited
    const options = { clock: systemClock, graceMs: 0 }
    const patient = new Lookout(undefined, () => urgent.promise)
    expect(await endTree(patient.over(tree.tree), options)).toMatchObject({ asked: 0 })
    tree.output.close()
  })
})
