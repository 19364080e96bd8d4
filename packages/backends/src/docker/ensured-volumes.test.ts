import { describe, expect, it } from "vitest"
import type { VolumeAnswer } from "./engine/volumes.ts"
import { EnsuredVolumes } from "./ensured-volumes.ts"

const VOLUME = { name: "cache", labels: {}, options: {} }
const ANSWER: VolumeAnswer = { Name: VOLUME.name, Driver: "local", Mountpoint: "/cache" }
const { signal } = new AbortController()

/** Volumes of an engine whose answers are given by hand, at a time that is set by hand. */
const open = () => {
  const asked: PromiseWithResolvers<VolumeAnswer>[] = []
  const clock = { nowMs: 0 }
  const volumes = new EnsuredVolumes(
    () => {
      const answer = Promise.withResolvers<VolumeAnswer>()
      asked.push(answer)
      return answer.promise
    },
    () => clock.nowMs,
  )
  return { volumes, asked, clock }
}

describe("ensured volumes", () => {
  it("[R1.13] share one request among concurrent callers, and make another one later", async () => {
    const { volumes, asked } = open()
    const both = Promise.all([volumes.ensure(VOLUME, signal), volumes.ensure(VOLUME, signal)])
    asked[0]?.resolve(ANSWER)
    expect(await both).toEqual([ANSWER, ANSWER])
    const later = volumes.ensure(VOLUME, signal)
    asked[1]?.resolve(ANSWER)
    await later
    expect(asked).toHaveLength(2)
  })

  it("answer a caller although another one of the same request gave up", async () => {
    const { volumes, asked } = open()
    const stop = new AbortController()
    const givenUp = volumes.ensure(VOLUME, stop.signal)
    const patient = volumes.ensure(VOLUME, signal)
    stop.abort(new Error("gave up"))
    await expect(givenUp).rejects.toThrow("gave up")
    asked[0]?.resolve(ANSWER)
    expect(await patient).toEqual(ANSWER)
  })

  it("ask again after a failure, which leaves no volume fresh", async () => {
    const { volumes, asked } = open()
    const failed = volumes.ensure(VOLUME, signal)
    asked[0]?.reject(new Error("no engine"))
    await expect(failed).rejects.toThrow("no engine")
    expect(volumes.isFresh(VOLUME.name)).toBe(false)
    const again = volumes.ensure(VOLUME, signal)
    asked[1]?.resolve(ANSWER)
    expect(await again).toEqual(ANSWER)
  })

  it("are fresh for two seconds, unless they are forgotten", async () => {
    const { volumes, asked, clock } = open()
    const ensured = volumes.ensure(VOLUME, signal)
    asked[0]?.resolve(ANSWER)
    await ensured
    clock.nowMs = 1_999
    expect(volumes.isFresh(VOLUME.name)).toBe(true)
    clock.nowMs = 2_000
    expect(volumes.isFresh(VOLUME.name)).toBe(false)
    clock.nowMs = 0
    volumes.forget(VOLUME.name)
    expect(volumes.isFresh(VOLUME.name)).toBe(false)
  })
})
