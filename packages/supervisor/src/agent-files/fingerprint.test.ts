import { mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, it, onTestFinished } from "vitest"
import { fingerprint } from "./fingerprint.ts"

const MiB = 1024 ** 2
const how = { followLinks: false, signal: new AbortController().signal }

/** Makes a directory with these files, and removes it after the test. */
const tree = (files: Readonly<Record<string, string>>): string => {
  const directory = mkdtempSync(join(tmpdir(), "berth-fingerprint-"))
  onTestFinished(() => rmSync(directory, { recursive: true }))
  for (const [name, text] of Object.entries(files)) writeFileSync(join(directory, name), text)
  return directory
}

describe("a fingerprint", () => {
  it("of a file of 200 MiB takes less than 50 MiB of memory", async () => {
    const directory = tree({ large: "" })
    truncateSync(join(directory, "large"), 200 * MiB)
    const before = process.memoryUsage().arrayBuffers
    let most = 0
    const look = () => {
      most = Math.max(most, process.memoryUsage().arrayBuffers - before)
    }
    const watch = setInterval(look, 1)
    onTestFinished(() => clearInterval(watch))
    expect(await fingerprint(directory, how)).toMatchObject({ entries: 2, bytes: 200 * MiB })
    look()
    expect(most).toBeLessThan(50 * MiB)
  })

  it("is the same for equal names and contents, and another for other contents", async () => {
    const text = "x".repeat(MiB + 1)
    const [one, same, other] = [{ a: text }, { a: text }, { a: `${text.slice(1)}y` }].map(tree)
    const print = await fingerprint(one as string, how)
    expect(print).toEqual(await fingerprint(same as string, how))
    expect(print?.hash).not.toBe((await fingerprint(other as string, how))?.hash)
  })

  it("is not taken of a tree with more entries or bytes than are allowed", async () => {
    const directory = tree({ a: "12345", b: "67890" })
    const size = { entries: 3, bytes: 10 }
    expect(await fingerprint(directory, { ...how, atMost: size })).toMatchObject(size)
    for (const less of [{ entries: 2 }, { bytes: 9 }])
      expect(await fingerprint(directory, { ...how, atMost: { ...size, ...less } })).toBeUndefined()
    mkdirSync(join(directory, "c"))
    expect(await fingerprint(directory, { ...how, atMost: size })).toBeUndefined()
  })

  it("is not taken of a file that holds more than its size says, and may have no end", async () => {
    expect(await fingerprint("/proc/self/maps", how)).toBeUndefined()
  })
})
