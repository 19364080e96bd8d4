import { execFileSync } from "node:child_process"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { requires } from "@berth/testing/requires"
import { expect } from "vitest"
import { key } from "../testing/key.ts"
import { makeRoot, openForTest, work } from "../testing/store.ts"

const shop = key("shop")

requires("root", "strace").it(
  "syncs a new top to disk before its stack names it, so that a loss of power leaves no stack without its top",
  async () => {
    const root = makeRoot()
    const layers = await openForTest(root)
    await layers.put(shop, null)
    await work(layers, shop, "echo one > file")
    const calls = traced(root, "top", "fsync,rename")
    const moved = calls.findIndex((call) => /rename\(.*\/incoming\/.*\/tops\//.test(call))
    const named = calls.findLastIndex((call) => /rename\(.*\/workspace\.json\.new"/.test(call))
    const between = calls.slice(moved, named)
    expect(moved).toBeGreaterThan(0)
    expect(ended(between, /fsync\(\d+<.*\/tops>/)).toBe(true)
  },
)

requires("root", "strace").it(
  "syncs the record and the tree of a new layer to disk before it has a layer's name, so that a loss of power leaves none damaged",
  async () => {
    const root = makeRoot()
    const layers = await openForTest(root)
    await layers.put(shop, null)
    await work(layers, shop, "echo one > file")
    const calls = traced(root, "freeze", "syncfs,rename")
    const written = calls.findIndex((call) => /rename\(.*layer\.json\.new"/.test(call))
    const named = calls.findIndex((call) => /rename\(.*\/tops\/.*\/layers\//.test(call))
    expect(written).toBeGreaterThanOrEqual(0)
    expect(named).toBeGreaterThan(written)
    expect(ended(calls.slice(written, named), /syncfs\(\d+<.*\/tree>/)).toBe(true)
  },
)

/** Traces the system calls of one operation in a process of its own. */
const traced = (root: string, operation: string, calls: string): string[] => {
  const traceFile = join(makeRoot(), "trace")
  const script = join(import.meta.dirname, "../testing/crash.ts")
  execFileSync("strace", [
    ...["-f", "-y", "-e", `trace=${calls}`, "-o", traceFile],
    ...[process.execPath, "--conditions=source", script, root, operation, "none"],
  ])
  return readFileSync(traceFile, "utf8").split("\n")
}

/**
 * Tells whether a call ended well. The calls of another thread may stand between its begin and its end. Short pids are
 * padded.
 */
const ended = (calls: readonly string[], call: RegExp): boolean => {
  const begin = calls.findIndex((line) => call.test(line))
  const line = calls[begin] ?? ""
  if (!line.includes("<unfinished ...>")) return line.endsWith("= 0")
  const [pid] = line.split(" ", 1)
  const end = new RegExp(`^${pid} +<\\.\\.\\. .*= 0$`)
  return calls.slice(begin).some((later) => end.test(later))
}
