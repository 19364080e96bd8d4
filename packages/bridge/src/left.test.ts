import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { encodeRecord, segmentName } from "@berth/protocol/journal-record"
import { spread } from "@berth/testing/trees"
import { describe, expect, it, onTestFinished } from "vitest"
import { readLeft } from "./left.ts"

const record = (message: string): Buffer =>
  encodeRecord(
    Buffer.from(
      JSON.stringify({ at: "2026-01-02T03:04:05.678Z", body: { type: "warning", message } }),
    ),
  )

/** Makes the directory of a sandbox that has ended, with these segments of a journal. */
const leave = (segments: Readonly<Record<string, readonly Buffer[]>>) => {
  const directory = mkdtempSync(join(tmpdir(), "berth-left-"))
  onTestFinished(() => rmSync(directory, { recursive: true }))
  const journal = join(directory, "journal")
  mkdirSync(journal)
  for (const [name, records] of Object.entries(segments))
    writeFileSync(join(journal, name), Buffer.concat(records))
  return { directory, journal }
}

const read = async (directory: string, after: number) => {
  const found: [number, string][] = []
  for await (const events of readLeft({ directory }, after))
    for (const { sequence, body } of events)
      found.push([sequence, body.type === "warning" ? body.message : body.type])
  return found
}

const TWO = {
  [segmentName(4, "log")]: [record("4"), record("5")],
  [segmentName(6, "log")]: [record("6"), record("7")],
}

describe("the journal of an ended sandbox", () => {
  it("is refused when its directory holds thousands of names", async () => {
    const { directory, journal } = leave(TWO)
    await spread(journal, 2_000, 100, "file")
    await expect(read(directory, 3)).rejects.toMatchObject({ code: "journal.damaged" })
  })

  it("[R3.4] is read after the last known event, up to an unfinished write", async () => {
    const { directory, journal } = leave(TWO)
    expect(await read(directory, 3)).toEqual([
      [4, "4"],
      [5, "5"],
      [6, "6"],
      [7, "7"],
    ])
    expect(await read(directory, 5)).toEqual([
      [6, "6"],
      [7, "7"],
    ])
    expect(await read(directory, 7)).toEqual([])
    truncateSync(join(journal, segmentName(6, "log")), record("6").length + 9)
    expect(await read(directory, 5)).toEqual([[6, "6"]])
  })

  it("gets numbers after the last known event where a power loss left them uncertain", async () => {
    const { directory } = leave({
      [segmentName(4, "log")]: [record("4")],
      [segmentName(5, "uncertain")]: [record("a"), record("b")],
    })
    expect(await read(directory, 8)).toEqual([
      [9, "a"],
      [10, "b"],
    ])
    expect(await read(directory, 3)).toEqual([
      [4, "4"],
      [5, "a"],
      [6, "b"],
    ])
  })

  it("[R3.4] begins with a gap in place of the events that it has dropped", async () => {
    const { directory } = leave(TWO)
    expect(await read(directory, 1)).toEqual([
      [3, "gap"],
      [4, "4"],
      [5, "5"],
      [6, "6"],
      [7, "7"],
    ])
  })

  it("[R3.4] is read up to where it is damaged", async () => {
    const { directory } = leave({ ...TWO, [segmentName(9, "log")]: [record("9")] })
    const found: number[] = []
    const reading = async () => {
      for await (const events of readLeft({ directory }, 3))
        found.push(...events.map(({ sequence }) => sequence))
    }
    await expect(reading()).rejects.toMatchObject({ code: "journal.damaged" })
    expect(found).toEqual([4, 5, 6, 7])
  })

  it("has no events where it is empty or missing", async () => {
    const { directory, journal } = leave({})
    expect(await read(directory, 0)).toEqual([])
    rmSync(journal, { recursive: true })
    expect(await read(directory, 0)).toEqual([])
  })

  it("is refused with a record of another form, a forged gap, a link out of it or a folder", async () => {
    const damaged = { code: "journal.damaged" }
    const wrong = leave({ [segmentName(1, "log")]: [encodeRecord(Buffer.from('{"at":1}'))] })
    await expect(read(wrong.directory, 0)).rejects.toMatchObject({
      code: "bridge.protocol_violated",
    })
    const gap = { at: new Date().toISOString(), body: { type: "gap", reason: "forged" } }
    const forged = leave({
      [segmentName(1, "log")]: [encodeRecord(Buffer.from(JSON.stringify(gap)))],
    })
    await expect(read(forged.directory, 0)).rejects.toMatchObject({
      code: "bridge.protocol_violated",
    })
    const linked = leave({})
    const elsewhere = leave({ [segmentName(1, "log")]: [record("secret")] })
    symlinkSync(
      join(elsewhere.journal, segmentName(1, "log")),
      join(linked.journal, segmentName(1, "log")),
    )
    await expect(read(linked.directory, 0)).rejects.toMatchObject(damaged)
    rmSync(linked.journal, { recursive: true })
    symlinkSync(elsewhere.journal, linked.journal)
    await expect(read(linked.directory, 0)).rejects.toMatchObject(damaged)
    const folder = leave({})
    cpSync(elsewhere.journal, join(folder.journal, segmentName(1, "log")), { recursive: true })
    await expect(read(folder.directory, 0)).rejects.toMatchObject(damaged)
  })
})
