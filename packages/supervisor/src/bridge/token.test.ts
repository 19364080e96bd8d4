import { chmodSync, mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { temporaryDirectory } from "../journal/testing/events.ts"
import { readToken, tokenGuard } from "./token.ts"

const TOKEN = "0123456789abcdefghijklmnopqrstuvwxyzABCD"

const file = (text: string, mode = 0o600) => {
  const path = join(temporaryDirectory(), "token")
  writeFileSync(path, text)
  chmodSync(path, mode)
  return path
}

describe("the token", () => {
  it("is read from a file that only its owner may read", () => {
    expect(readToken(file(`${TOKEN}\n`))).toBe(TOKEN)
    expect(readToken(file(TOKEN, 0o400))).toBe(TOKEN)
  })

  it.each([
    ["that others may read", () => file(TOKEN, 0o640)],
    ["that is too short to be a token", () => file("short")],
    ["that is empty", () => file("")],
    ["with a space in it", () => file(`${TOKEN} ${TOKEN}`)],
    ["that does not exist", () => "/nowhere/token"],
    [
      "that is a directory",
      () => {
        const path = join(temporaryDirectory(), "directory")
        mkdirSync(path, 0o700)
        return path
      },
    ],
  ])("is not read from a file %s", (_what, make) => {
    const path = make()
    expect(() => readToken(path)).toThrow(
      expect.objectContaining({
        code: "bridge.token_unusable",
        details: expect.objectContaining({ path }),
      }),
    )
  })

  it("authorizes a request only where it is given exactly", () => {
    const isAuthorized = tokenGuard(TOKEN)
    expect(isAuthorized(`Bearer ${TOKEN}`)).toBe(true)
    const others = [undefined, "", TOKEN, `Basic ${TOKEN}`, `bearer ${TOKEN}`, `Bearer ${TOKEN} `]
    const near = [`Bearer ${TOKEN.slice(1)}`, `Bearer ${TOKEN.slice(0, -1)}`, `Bearer ${TOKEN}x`]
    const twice = [`Bearer ${TOKEN}Bearer ${TOKEN}`, "Bearer ", "Bearer"]
    for (const header of [...others, ...near, ...twice]) expect(isAuthorized(header)).toBe(false)
    for (let place = 0; place < TOKEN.length; place++) {
      const wrong = `${TOKEN.slice(0, place)}!${TOKEN.slice(place + 1)}`
      expect(isAuthorized(`Bearer ${wrong}`)).toBe(false)
    }
  })
})
