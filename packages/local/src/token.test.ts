import {
  chmodSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { requires } from "@berth/testing/requires"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { ensureToken, readToken } from "./token.ts"

let dir: string
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "berth-token-"))
})
afterEach(() => {
  rmSync(dir, { recursive: true, force: true })
})

const GROUP = 4_001
const OTHER_GROUP = 4_002

const unusable = { code: "server.token_unusable" }

describe("the API token", () => {
  it("is made once, readable by its owner alone", async () => {
    const token = await ensureToken(dir)
    expect(token).toMatch(/^[A-Za-z0-9_-]{43}$/)
    expect(statSync(join(dir, "token")).mode & 0o777).toBe(0o600)
    expect(readdirSync(dir)).toEqual(["token"])
    expect(await ensureToken(dir)).toBe(token)
    expect(await readToken(dir)).toBe(token)
  })

  it("differs between data directories", async () => {
    const other = mkdtempSync(join(tmpdir(), "berth-token-"))
    try {
      expect(await ensureToken(other)).not.toBe(await ensureToken(dir))
    } finally {
      rmSync(other, { recursive: true })
    }
  })

  it("is not there before the first start", async () => {
    expect(await readToken(dir)).toBeUndefined()
  })

  it("is made in spite of the draft that a crash left", async () => {
    writeFileSync(join(dir, "token.new"), "half")
    const token = await ensureToken(dir)
    expect(readFileSync(join(dir, "token"), "utf8").trim()).toBe(token)
    expect(statSync(join(dir, "token")).mode & 0o777).toBe(0o600)
  })

  it("is refused when others can read it, when it is a link, and when it is malformed, which is left as it is", async () => {
    const path = join(dir, "token")
    writeFileSync(path, "a".repeat(43), { mode: 0o644 })
    chmodSync(path, 0o644)
    await expect(ensureToken(dir)).rejects.toMatchObject({ ...unusable, details: { path } })
    rmSync(path)
    writeFileSync(join(dir, "elsewhere"), "a".repeat(43), { mode: 0o600 })
    symlinkSync(join(dir, "elsewhere"), path)
    await expect(ensureToken(dir)).rejects.toMatchObject(unusable)
    rmSync(path)
    for (const content of ["", "short", `${"a".repeat(20)} ${"b".repeat(20)}`]) {
      writeFileSync(path, content, { mode: 0o600 })
      await expect(ensureToken(dir)).rejects.toMatchObject(unusable)
      expect(readFileSync(path, "utf8")).toBe(content)
    }
  })

  const unshared = [
    { next: "nobody", group: undefined, mode: 0o600 },
    { next: "another group", group: OTHER_GROUP, mode: 0o640 },
  ]
  for (const { next, group, mode } of unshared)
    requires("root").it(
      `is replaced when it was shared with a group and now is with ${next}`,
      async () => {
        const path = join(dir, "token")
        const replaced: number[] = []
        const take = (group: number | undefined) =>
          ensureToken(dir, { group, onReplaced: (gid) => void replaced.push(gid) })
        const shared = await take(GROUP)
        expect(await take(GROUP)).toBe(shared)
        expect(replaced).toEqual([])

        const token = await take(group)
        expect(token).not.toBe(shared)
        expect(await readToken(dir, group)).toBe(token)
        expect(replaced).toEqual([GROUP])
        expect(statSync(path)).toMatchObject({
          gid: group ?? process.getgid?.(),
          mode: 0o100000 | mode,
        })
        expect(await take(group)).toBe(token)
        expect(replaced).toEqual([GROUP])
      },
    )

  it("is a typed error where it cannot be written", async () => {
    await expect(ensureToken(join(dir, "missing"))).rejects.toMatchObject(unusable)
  })
})
