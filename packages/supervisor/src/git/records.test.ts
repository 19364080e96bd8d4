import { Readable } from "node:stream"
import { MAX_GIT_FILES } from "@berth/protocol/git-limits"
import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { parseChanges } from "./changes.ts"
import { recordsOf } from "./records.ts"
import { parseStatus } from "./status.ts"

describe("the output of git", () => {
  it("is split at its NUL bytes, wherever its chunks end", async () => {
    const record = fc.uint8Array({ maxLength: 6, max: 255, min: 1 })
    await fc.assert(
      fc.asyncProperty(
        fc.array(record),
        fc.array(fc.nat(40), { maxLength: 6 }),
        async (records, cuts) => {
          const whole = Buffer.concat(records.flatMap((each) => [each, Buffer.of(0)]))
          const places = [0, ...cuts.toSorted((a, b) => a - b), whole.length]
          const chunks = places.slice(1).map((end, at) => whole.subarray(places[at], end))
          const found: Buffer[] = []
          for await (const each of recordsOf(Readable.from(chunks))) found.push(each)
          expect(found).toEqual(records.map((each) => Buffer.from(each)))
        },
      ),
    )
  })

  it("is listed up to a limit, and says when it is cut", async () => {
    const lines = (count: number, line: string) => Readable.from([Buffer.from(line.repeat(count))])
    const status = (count: number) => parseStatus(lines(count, "? file\0"))
    expect(await status(MAX_GIT_FILES)).toMatchObject({ isCut: false })
    const cut = await status(MAX_GIT_FILES + 1)
    expect([cut.files.length, cut.isCut]).toEqual([MAX_GIT_FILES, true])
    const id = "0".repeat(40)
    const raw = `:100644 100644 ${id} ${id} M\0file\0`
    const changes = await parseChanges(lines(MAX_GIT_FILES + 1, raw))
    expect([changes.files.length, changes.isCut]).toEqual([MAX_GIT_FILES, true])
  })
})
