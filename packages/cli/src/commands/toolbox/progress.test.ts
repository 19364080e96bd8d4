import type { ToolboxProgress } from "@berth/protocol/toolbox"
import { expect, it } from "vitest"
import { showProgress } from "./progress.ts"

const MB = 1_000_000
const at = (step: ToolboxProgress["step"], entry: string, megabytes: number): ToolboxProgress => ({
  step,
  entry,
  bytesDone: megabytes * MB,
  bytesTotal: 200 * MB,
})

const shown = (screen: boolean, ...all: ToolboxProgress[]) => {
  const written: string[] = []
  const progress = showProgress((text) => written.push(text), { screen })
  for (const each of all) progress.show(each)
  progress.end()
  return written
}

it("the progress of a build is one line that moves on a screen, and is gone at the end", () => {
  expect(
    shown(
      true,
      at("reading", "node", 100),
      at("reading", "node", 100),
      at("copying", "opencode", 199),
    ),
  ).toEqual([
    "\r\u001b[Kreading   node           50 %  100 MB of 200 MB",
    "\r\u001b[Kcopying   opencode       99 %  199 MB of 200 MB",
    "\r\u001b[K",
  ])
})

it("the progress of a build is one line for each step where there is no screen", () => {
  expect(
    shown(
      false,
      at("reading", "node", 1),
      at("reading", "opencode", 150),
      at("copying", "node", 1),
      at("checking", "node", 200),
    ),
  ).toEqual(["reading 200 MB\n", "copying 200 MB\n", "checking 200 MB\n"])
})

it("the progress of a build is silent when nothing had to be done", () => {
  expect(shown(true)).toEqual([])
  expect(shown(false)).toEqual([])
})
