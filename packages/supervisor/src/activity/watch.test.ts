import type { CommandId } from "@berth/protocol/commands"
import { newId } from "@berth/protocol/ids"
import type { TerminalId } from "@berth/protocol/terminals"
import { describe, expect, it } from "vitest"
import { ActivityTracker } from "../features/activity-tracker.ts"
import { ManualClock } from "../processes/testing/manual-clock.ts"
import { ActivityWatch, LOOK_EVERY_MS } from "./watch.ts"

const never = new AbortController().signal
const command = "cmd-00000000000000000000" as CommandId
const terminal = "term-00000000000000000000" as TerminalId
const WAIT_MS = 20_000

const stage = () => {
  const clock = new ManualClock()
  const tracker = new ActivityTracker()
  const world = { left: 0, looks: 0, whileLooking: () => {} }
  const left = async () => {
    world.looks++
    const seen = world.left
    await Promise.resolve()
    world.whileLooking()
    return seen
  }
  return { clock, tracker, world, watch: new ActivityWatch({ clock, tracker, left }) }
}

/** Tells whether the promise has settled, once everything that can happen now has happened. */
const isSettled = async (promise: Promise<unknown>): Promise<boolean> => {
  let settled = false
  void promise.then(() => {
    settled = true
  })
  await new Promise((resolve) => setImmediate(resolve))
  return settled
}

describe("the activity of a sandbox", () => {
  it("has another version after every change", async () => {
    const { tracker, watch, world } = stage()
    const versions = new Set([(await watch.now()).version])
    const prompt = newId.prompt()
    const changes = [
      () => tracker.setPrompts([prompt]),
      () => tracker.commandStarted(command),
      () => tracker.setViewers(terminal, 0),
      () => tracker.setViewers(terminal, 2),
    ]
    for (const change of changes) {
      change()
      versions.add((await watch.now()).version)
    }
    world.left = 3
    const { version, ...activity } = await watch.now()
    expect(activity).toEqual({
      prompts: [prompt],
      commands: [command],
      terminals: [{ id: terminal, viewers: 2 }],
      leftProcesses: 3,
    })
    expect(versions.add(version).size).toBe(changes.length + 2)
    expect((await watch.now()).version).toBe(version)
    tracker.commandEnded(command)
    versions.add((await watch.now()).version)
    tracker.terminalEnded(terminal)
    const ended = await watch.now()
    expect(ended).toMatchObject({ commands: [], terminals: [] })
    expect(versions.add(ended.version).size).toBe(changes.length + 4)
  })

  it("is told at once to a client with another version, else at the next change", async () => {
    const { tracker, watch } = stage()
    const { version } = await watch.now()
    expect(await watch.after(version + 1, WAIT_MS, never)).toMatchObject({ version })
    const waiting = watch.after(version, WAIT_MS, never)
    expect(await isSettled(waiting)).toBe(false)
    tracker.commandStarted(command)
    expect(await waiting).toMatchObject({ commands: [command] })
  })

  it("is told unchanged when the client's time is over", async () => {
    const { clock, watch } = stage()
    const { version } = await watch.now()
    const waiting = watch.after(version, 1.5 * LOOK_EVERY_MS, never)
    expect(await isSettled(waiting)).toBe(false)
    await clock.advance(LOOK_EVERY_MS)
    expect(await isSettled(waiting)).toBe(false)
    await clock.advance(LOOK_EVERY_MS / 2)
    expect(await waiting).toMatchObject({ version })
  })

  it("is looked at only while a client waits", async () => {
    const { clock, watch, world } = stage()
    const { version } = await watch.now()
    const waiting = watch.after(version, WAIT_MS, never)
    await isSettled(waiting)
    world.left = 1
    await clock.advance(LOOK_EVERY_MS)
    expect(await waiting).toMatchObject({ leftProcesses: 1 })
    const { looks } = world
    await clock.advance(WAIT_MS)
    await isSettled(Promise.resolve())
    expect(world.looks).toBe(looks)
  })

  it("[R1.7] still names a prompt that ends during the look, and counts at the next look the processes that it left", async () => {
    const { tracker, watch, world } = stage()
    const prompt = newId.prompt()
    tracker.setPrompts([prompt])
    world.whileLooking = () => {
      world.whileLooking = () => {}
      world.left = 1
      tracker.setPrompts([])
    }
    const { version, ...before } = await watch.now()
    expect(before).toMatchObject({ prompts: [prompt], leftProcesses: 0 })
    expect(await watch.after(version, WAIT_MS, never)).toMatchObject({
      prompts: [],
      leftProcesses: 1,
    })
  })

  it("is told at once when it changes during the look", async () => {
    const { tracker, watch, world } = stage()
    const { version } = await watch.now()
    world.whileLooking = () => {
      world.whileLooking = () => {}
      tracker.commandStarted(command)
    }
    expect(await watch.after(version, WAIT_MS, never)).toMatchObject({ commands: [command] })
  })

  it("is not looked at any more when the client is gone", async () => {
    const { clock, watch, world } = stage()
    const gone = new AbortController()
    const { version } = await watch.now()
    const waiting = watch.after(version, WAIT_MS, gone.signal)
    await new Promise((resolve) => setImmediate(resolve))
    const { looks } = world
    gone.abort(new Error("gone"))
    await expect(waiting).rejects.toThrow("gone")
    await clock.advance(WAIT_MS)
    expect(world.looks).toBe(looks)
  })
})
