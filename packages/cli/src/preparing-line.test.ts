import { expect, it } from "vitest"
import { preparingLine } from "./preparing-line.ts"

const shown = (isScreen: boolean, ...all: string[]) => {
  const written: string[] = []
  const line = preparingLine({ err: (text) => written.push(text), isScreen: () => isScreen })
  for (const each of all) line.show(each)
  line.end()
  return written
}

it("moves on a screen, and is gone at the end", () => {
  expect(shown(true, "reading 0 %", "reading 0 %", "copying 90 %")).toEqual([
    "\r\u001b[Kwaiting: reading 0 %",
    "\r\u001b[Kwaiting: copying 90 %",
    "\r\u001b[K",
  ])
})

it("is a line for each step elsewhere", () => {
  expect(shown(false, "reading 0 %", "reading 0 %", "copying 90 %")).toEqual([
    "waiting: reading 0 %\n",
    "waiting: copying 90 %\n",
  ])
})

it("writes nothing when nothing is prepared", () => {
  expect(shown(true)).toEqual([])
  expect(shown(false)).toEqual([])
})
