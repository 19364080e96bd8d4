import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, it, onTestFinished } from "vitest"
import { Secrets } from "../logging/secrets.ts"
import { NO_KEYS, openKeys } from "./keys.ts"

const make = (text?: string) => {
  const directory = mkdtempSync(join(tmpdir(), "berth-keys-"))
  onTestFinished(() => rmSync(directory, { recursive: true }))
  const path = join(directory, "keys.env")
  if (text !== undefined) writeFileSync(path, text, { mode: 0o600 })
  return { path, keys: openKeys(path, new Secrets()) }
}

describe("the keys of agents", () => {
  it("are the requested ones, as the file has them now", async () => {
    const { path, keys } = make("# of the team\nONE=first\nTWO='with = and space'\n")
    expect(await keys.read(["TWO"])).toEqual({ TWO: "with = and space" })
    writeFileSync(path, "ONE=second\n")
    expect(await keys.read(["ONE"])).toEqual({ ONE: "second" })
  })

  it("are not taken from a file that others may read", async () => {
    const { path, keys } = make("ONE=first\n")
    chmodSync(path, 0o640)
    await expect(keys.read(["ONE"])).rejects.toMatchObject({
      code: "agent.keys_unusable",
      details: { path },
    })
  })

  it("are refused as a whole where a line is not NAME=value, with the number of the line", async () => {
    const { keys, path } = make(
      "# ok\n\nexport ONE='two\nlines'\n  TWO = 2\nsecret-without-a-name\n",
    )
    await expect(keys.read(["TWO"])).rejects.toMatchObject({
      code: "agent.keys_unusable",
      message: `line 6 of the file of keys is not NAME=value: ${path}`,
      details: { path, line: 6 },
    })
    const { keys: whole } = make("# ok\n\nexport ONE='two\nlines'\n  TWO = 2\n")
    expect(await whole.read(["ONE", "TWO"])).toEqual({ ONE: "two\nlines", TWO: "2" })
  })

  it("are named with their file where they are missing", async () => {
    const { path, keys } = make("ONE=first\nEMPTY=\n")
    await expect(keys.read(["ONE", "TWO", "EMPTY"])).rejects.toMatchObject({
      code: "agent.key_missing",
      details: { keys: ["TWO", "EMPTY"], file: path },
    })
    const none = make()
    await expect(none.keys.read(["ONE"])).rejects.toMatchObject({ code: "agent.key_missing" })
    await expect(NO_KEYS.read(["ONE"])).rejects.toMatchObject({ code: "agent.key_missing" })
    expect(await none.keys.read([])).toEqual({})
  })
})
