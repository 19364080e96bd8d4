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
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { ensureToken, readToken } from "./token.ts"

let dir: string
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "berth-token-"))
})
afterEach(() => {
  rmSync(dir, { recursive: true, force: true })
})

const unusable = { code: "server.token_unusable" }

describe("the API token", () => {
  it("is made once, for its owner's eyes only", async () => {
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

  it("is refused when others can read it, when it is a link, and when it is none; and left as it is", async () => {
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

  it("is a typed error where it cannot be written", async () => {
    await expect(ensureToken(join(dir, "missing"))).rejects.toMatchObject(unusable)
  })
})
