import { cpSync, readdirSync } from "node:fs"
import { describe, expect, it } from "vitest"
import type { Journal } from "./journal.ts"
import { counted, event, readAll, reopened, temporaryDirectory } from "./testing/events.ts"

/** Small, so that a few events fill it: segments of 2 KiB, events of up to 4 KiB. */
const SMALL_BYTES = 16 * 1024

const appendCounted = async (journal: Journal, count: number, padding = 0) => {
  const first = journal.last + 1
  const labels = Array.from({ length: count }, (_, place) => first + place)
  return await Promise.all(labels.map((label) => journal.append(event(label, padding))))
}

const segmentsIn = (directory: string) =>
  readdirSync(directory).filter((name) => /\.(log|uncertain)$/.test(name))

describe("the journal", () => {
  it("[R3.2] numbers events from 1 in the order of the calls, and goes on after it is opened again", async () => {
    const directory = temporaryDirectory()
    const journal = await reopened(directory)
    const appended = await appendCounted(journal, 100)
    expect(appended.map(({ sequence }) => sequence)).toEqual(counted(100).map((e) => e.sequence))
    await journal.close()
    const next = await reopened(directory)
    expect(await next.append(event(101))).toMatchObject({ sequence: 101 })
    expect(await readAll(next)).toEqual(counted(101))
  })

  it("[R3.4] has written an event when its append resolves: a copy of its files holds it", async () => {
    const directory = temporaryDirectory()
    const journal = await reopened(directory)
    for (let label = 1; label <= 5; label++) {
      await journal.append(event(label), { durable: label % 2 === 0 })
      const copy = temporaryDirectory()
      cpSync(directory, copy, { recursive: true })
      expect(await readAll(await reopened(copy))).toEqual(counted(label))
    }
  })

  it("[R3.2] replays from every number that it holds, across segments", async () => {
    const journal = await reopened(temporaryDirectory(), { maxBytes: SMALL_BYTES })
    await appendCounted(journal, 40, 200)
    for (let after = 0; after <= 40; after++)
      expect(await readAll(journal, after)).toEqual(counted(40, after + 1))
  })

  it("[R3.2] hands out events that are appended while it is read, in batches that fit", async () => {
    const journal = await reopened(temporaryDirectory())
    const reader = journal.readAfter(0)
    const read: number[] = []
    const reading = (async () => {
      while (read.length < 300) {
        const { first, events } = await reader.next(1000, AbortSignal.timeout(10_000))
        expect(first).toBe(read.length + 1)
        expect(events.join("").length).toBeLessThan(2000)
        read.push(...events.map((text) => JSON.parse(text).sequence))
      }
    })()
    for (let round = 0; round < 30; round++) await appendCounted(journal, 10)
    await reading
    await reader.close()
    expect(read).toEqual(counted(300).map(({ sequence }) => sequence))
  })

  it("removes acknowledged events, keeps the rest, and never reuses a number", async () => {
    const directory = temporaryDirectory()
    const journal = await reopened(directory, { maxBytes: SMALL_BYTES })
    await appendCounted(journal, 40, 200)
    const before = segmentsIn(directory).length
    await journal.acknowledge(20)
    expect(segmentsIn(directory).length).toBeLessThan(before)
    expect(journal.first).toBeLessThanOrEqual(21)
    expect(await readAll(journal, 20)).toEqual(counted(40, 21))
    await journal.acknowledge(40)
    expect(segmentsIn(directory)).toHaveLength(1)
    await journal.close()
    const next = await reopened(directory, { maxBytes: SMALL_BYTES })
    expect(await next.append(event(41))).toMatchObject({ sequence: 41 })
  })

  it("[R3.4] makes appends wait when it is full, and drops nothing", async () => {
    const directory = temporaryDirectory()
    const journal = await reopened(directory, { maxBytes: SMALL_BYTES })
    const appended: number[] = []
    const all = Array.from({ length: 200 }, (_, place) =>
      journal.append(event(place + 1, 200)).then(({ sequence }) => appended.push(sequence)),
    )
    await expect.poll(() => journal.isFull).toBe(true)
    expect(journal.bytes).toBeLessThanOrEqual(SMALL_BYTES)
    expect(appended).toEqual(counted(appended.length).map(({ sequence }) => sequence))
    const read = []
    while (read.length < 200) {
      const more = await readAll(journal, read.length)
      read.push(...more)
      if (more.length === 0) await journal.grownBeyond(read.length, AbortSignal.timeout(10_000))
      await journal.acknowledge(read.length)
    }
    await Promise.all(all)
    expect(read).toEqual(counted(200))
  })

  it("takes an event back that waits for room when its caller gives up", async () => {
    const journal = await reopened(temporaryDirectory(), { maxBytes: SMALL_BYTES })
    const stop = new AbortController()
    const all = Array.from({ length: 100 }, () =>
      journal.append(event("x", 200), { signal: stop.signal }).catch((reason) => reason),
    )
    await expect.poll(() => journal.isFull).toBe(true)
    const { last } = journal
    stop.abort("enough")
    const outcomes = await Promise.all(all)
    expect(outcomes.filter((outcome) => outcome === "enough")).toHaveLength(100 - last)
    await journal.acknowledge(last)
    expect(await journal.append(event(last + 1))).toMatchObject({ sequence: last + 1 })
  })

  it("keeps a held event although it is acknowledged, until it is released", async () => {
    const directory = temporaryDirectory()
    const journal = await reopened(directory, { maxBytes: SMALL_BYTES })
    const { sequence, release } = await journal.append(event(1), { held: true })
    await appendCounted(journal, 40, 200)
    await journal.acknowledge(41)
    expect(await readAll(journal, 0)).toHaveLength(41)
    release()
    release()
    await journal.acknowledge(41)
    expect(journal.first).toBeGreaterThan(sequence)
  })

  it("refuses an event that no message could carry, and goes on", async () => {
    const journal = await reopened(temporaryDirectory())
    await expect(journal.append(event("x", 256 * 1024))).rejects.toMatchObject({
      code: "journal.event_too_large",
      details: { maxBytes: 256 * 1024 },
    })
    expect(await journal.append(event(1))).toMatchObject({ sequence: 1 })
  })

  it("ends all waiting calls when it is closed, and may be closed twice", async () => {
    const journal = await reopened(temporaryDirectory(), { maxBytes: SMALL_BYTES })
    const reader = journal.readAfter(0)
    const reading = reader
      .next(1, AbortSignal.timeout(10_000))
      .then(() => reader.next(1_000_000, AbortSignal.timeout(10_000)))
    const all = Array.from({ length: 100 }, () => journal.append(event("x", 200)))
    const outcomes = Promise.allSettled(all)
    await Promise.all([journal.close(), journal.close()])
    const written = (await outcomes).filter(({ status }) => status === "fulfilled")
    expect(written.length).toBe(journal.last)
    expect(written.length).toBeGreaterThan(0)
    await expect(journal.append(event(1))).rejects.toMatchObject({ code: "journal.closed" })
    await reading
    await expect(
      journal.grownBeyond(journal.last, AbortSignal.timeout(10_000)),
    ).rejects.toMatchObject({ code: "journal.closed" })
    await reader.close()
  })

  it("goes on after events that it has removed, and never after numbers that it has not recorded", async () => {
    const journal = await reopened(temporaryDirectory(), { maxBytes: SMALL_BYTES })
    await appendCounted(journal, 40, 200)
    await journal.acknowledge(30)
    expect(await journal.agree(30)).toBe(30)
    expect(await journal.agree(40)).toBe(40)
    expect(await journal.agree(journal.first - 2)).toBe(journal.first - 1)
    await expect(journal.agree(41)).rejects.toMatchObject({ code: "journal.not_held" })
    await expect(
      journal.readAfter(0).next(1000, AbortSignal.timeout(10_000)),
    ).rejects.toMatchObject({ code: "journal.not_held" })
  })
})
