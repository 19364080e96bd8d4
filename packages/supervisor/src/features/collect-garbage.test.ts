import { spawnSync } from "node:child_process"
import { cachedDataVersionTag } from "node:v8"
import { SUPERVISOR_FLAGS } from "@berth/protocol/inside"
import { expect, it } from "vitest"
import { WORKER_FLAGS } from "../files/worker-process.ts"
import { collectGarbage } from "./collect-garbage.ts"

it("collects what nobody holds any more", async () => {
  const object = new WeakRef({})
  // A weak reference holds its object until the end of the turn in which it was made.
  await new Promise((resolve) => setImmediate(resolve))
  collectGarbage({ type: "major", flavor: "last-resort" })
  expect(object.deref()).toBeUndefined()
})

/** Compiled code fits V8's version and flags, which this tag stands for. */
const tagWith = (flags: readonly string[]): string => {
  const print = "process.stdout.write(String(require('node:v8').cachedDataVersionTag()))"
  return spawnSync(process.execPath, [...flags, "-e", print], { encoding: "utf8" }).stdout
}

it("leaves the flags as compiled code needs them", () => {
  const before = cachedDataVersionTag()
  collectGarbage({ type: "minor" })
  expect(cachedDataVersionTag()).toBe(before)
})

it.each([
  ["the supervisor", SUPERVISOR_FLAGS],
  ["the worker", WORKER_FLAGS],
])("node uses its compiled modules with the flags of %s", (_, flags) => {
  expect(tagWith(flags)).toBe(tagWith([]))
})
