import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { sandboxOomScore } from "./oom-score.ts"

describe("the out-of-memory score of sandboxes", () => {
  let file: string
  beforeAll(async () => {
    file = join(await mkdtemp(join(tmpdir(), "berth-score-")), "oom_score_adj")
  })
  afterAll(() => rm(join(file, ".."), { recursive: true }))

  it.each([
    ["0\n", 500],
    ["200\n", 700],
    ["900\n", 1_000],
    ["-1000\n", 500],
    ["", 500],
  ])("is above the server's own score where that allows it, %j", async (own, expected) => {
    await writeFile(file, own)
    expect(sandboxOomScore(file)).toBe(expected)
  })
})
