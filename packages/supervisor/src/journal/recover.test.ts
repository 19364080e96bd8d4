import { appendFileSync, readdirSync, readFileSync, truncateSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { counted, event, readAll, reopened, temporaryDirectory } from "./testing/events.ts"

const SMALL_BYTES = 16 * 1024

const segmentsIn = (directory: string) =>
  readdirSync(directory)
    .filter((name) => /\.(log|uncertain)$/.test(name))
    .sort()
    .map((name) => join(directory, name))

/** Writes a journal and does not close it, like a killed supervisor. */
const written = async (
  count: number,
  { machine = "one", maxBytes = SMALL_BYTES, padding = 0 } = {},
) => {
  const directory = temporaryDirectory()
  const journal = await reopened(directory, { machine, maxBytes })
  for (let label = 1; label <= count; label++) await journal.append(event(label, padding))
  return { directory, journal }
}

describe("a journal after a kill", () => {
  it("[R3.4] finds and cuts a torn last record, wherever it was torn", async () => {
    const { directory } = await written(3)
    const [segment = ""] = segmentsIn(directory)
    const whole = readFileSync(segment)
    const recordBytes = whole.length / 3
    for (let cut = 0; cut <= recordBytes; cut++) {
      writeFileSync(segment, whole)
      truncateSync(segment, whole.length - cut)
      const journal = await reopened(directory, { machine: "one" })
      const kept = cut === 0 ? 3 : 2
      expect(journal.cutBytes).toBe(cut === 0 ? 0 : recordBytes - cut)
      expect(await readAll(journal)).toEqual(counted(kept))
      await journal.append(event(kept + 1))
      expect(await readAll(journal)).toEqual(counted(kept + 1))
    }
  })

  it.each([
    ["zeros", Buffer.alloc(5000)],
    ["a length without an end", Buffer.from([255, 255, 255, 127, 1, 2, 3, 4, 5])],
    [
      "a record whose bytes are not those of its checksum",
      Buffer.from([2, 0, 0, 0, 1, 1, 1, 1, 65, 66]),
    ],
  ])("[R3.4] cuts %s behind the last record", async (_what, garbage) => {
    const { directory } = await written(3)
    appendFileSync(segmentsIn(directory)[0] ?? "", garbage)
    const journal = await reopened(directory, { machine: "one" })
    expect(journal.cutBytes).toBe(garbage.length)
    await journal.append(event(4))
    await journal.close()
    expect(await readAll(await reopened(directory, { machine: "one" }))).toEqual(counted(4))
  })

  it("refuses a journal that is damaged before its end, and leaves it as it is", async () => {
    const { directory } = await written(40, { padding: 200 })
    const [first = ""] = segmentsIn(directory)
    const bytes = readFileSync(first)
    bytes[20] = (bytes[20] ?? 0) ^ 1
    writeFileSync(first, bytes)
    await expect(reopened(directory, { machine: "one" })).rejects.toMatchObject({
      code: "journal.damaged",
      details: { path: first },
    })
    expect(readFileSync(first)).toEqual(bytes)
  })

  it("takes the events before a missing segment for acknowledged, and goes on", async () => {
    const { directory } = await written(40, { padding: 200 })
    const [first = "", second = "", third = ""] = segmentsIn(directory)
    writeFileSync(second, "")
    // A segment that vanished leaves a gap in the numbers, as an empty one does.
    const journal = await reopened(directory, { machine: "one", maxBytes: SMALL_BYTES })
    expect(segmentsIn(directory)).not.toContain(first)
    expect(journal.first).toBe(Number(/(\d+)\.log$/.exec(third)?.[1]))
    expect(await readAll(journal)).toEqual(counted(40, journal.first))
  })
})

describe("a journal after a power loss", () => {
  /** Removes the last events, as a power loss may remove unsynced ones. */
  const losePower = (directory: string, kept: number) => {
    const segment = segmentsIn(directory).at(-1) ?? ""
    const bytes = readFileSync(segment)
    let end = 0
    for (let record = 0; record < kept; record++) end += 8 + bytes.readUInt32LE(end)
    truncateSync(segment, end)
  }

  it("[R3.4] numbers new events after the last one that the server saw, although the journal lost some of those", async () => {
    const { directory } = await written(10)
    losePower(directory, 6)
    const journal = await reopened(directory, { machine: "two" })
    await journal.append(event("new one"))
    await journal.append(event("new two"), { durable: true })
    await journal.agree(9)
    expect(journal.last).toBe(11)
    expect(await readAll(journal, 9)).toEqual([
      { sequence: 10, label: "new one" },
      { sequence: 11, label: "new two" },
    ])
    await journal.acknowledge(11)
    expect(await journal.append(event(12))).toMatchObject({ sequence: 12 })
  })

  it("[R3.4] keeps its numbers where the server has seen no more events than are left", async () => {
    const { directory } = await written(10)
    losePower(directory, 6)
    const journal = await reopened(directory, { machine: "two" })
    await journal.append(event(7))
    await journal.agree(4)
    expect(await readAll(journal, 4)).toEqual(counted(7, 5))
  })

  it("[R3.4] keeps its numbers in doubt through further kills, until the server has named the last one that it saw", async () => {
    const { directory } = await written(10)
    losePower(directory, 6)
    for (let label = 1; label <= 3; label++) {
      const killed = await reopened(directory, { machine: label === 3 ? "three" : "two" })
      await killed.append(event(`new ${label}`))
    }
    const journal = await reopened(directory, { machine: "three" })
    await journal.agree(10)
    const fresh = [1, 2, 3].map((label) => ({ sequence: 10 + label, label: `new ${label}` }))
    expect(await readAll(journal, 10)).toEqual(fresh)
    await journal.close()
    // Settled for good: the numbers do not move again.
    const next = await reopened(directory, { machine: "four" })
    await next.agree(12)
    expect(await readAll(next, 12)).toEqual(fresh.slice(2))
  })

  it("[R3.4] doubts nothing after a clean end, or while the machine runs on", async () => {
    const { directory, journal } = await written(10)
    const sameMachine = await reopened(directory, { machine: "one" })
    await expect(sameMachine.agree(11)).rejects.toMatchObject({ code: "journal.not_held" })
    await journal.close()
    const next = await reopened(directory, { machine: "two" })
    await expect(next.agree(11)).rejects.toMatchObject({ code: "journal.not_held" })
  })

  it("[R3.4] holds all events that fit while it is in doubt, and frees them afterwards", async () => {
    const { directory } = await written(10)
    losePower(directory, 6)
    const journal = await reopened(directory, { machine: "two", maxBytes: SMALL_BYTES })
    const all = Array.from({ length: 50 }, (_, place) => journal.append(event(11 + place, 2900)))
    await expect.poll(() => journal.isFull).toBe(true)
    await journal.agree(10)
    for (let seen = 10; seen < 60; ) {
      await journal.grownBeyond(seen, AbortSignal.timeout(10_000))
      const read = await readAll(journal, seen)
      expect(read).toEqual(counted(seen + read.length, seen + 1))
      seen += read.length
      await journal.acknowledge(seen)
    }
    await Promise.all(all)
  })
})
