import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { expect, it, onTestFinished } from "vitest"
import { heldMbOf, heldVariables } from "./held.ts"

const GARBAGE_MB = 64
const HELD_MB = 32

/** Makes garbage, and holds more memory at each line of its input. */
const PROGRAM = `
const mb = (count) => Array.from({ length: count }, () => Buffer.alloc(1024 * 1024, 1))
const held = []
globalThis.garbage = mb(${GARBAGE_MB})
globalThis.garbage = undefined
process.stdin.on("data", () => { held.push(mb(${HELD_MB})); console.log("holds") })
console.log("up")
`

const startProgram = async () => {
  const directory = mkdtempSync(join(tmpdir(), "berth-soak-test-"))
  const file = join(directory, "held")
  const env = { PATH: process.env.PATH, ...heldVariables(file) }
  const child = spawn(process.execPath, ["--eval", PROGRAM], {
    env,
    stdio: ["pipe", "pipe", "inherit"],
  })
  const ended = once(child, "exit")
  onTestFinished(async () => {
    child.kill("SIGKILL")
    await ended
    rmSync(directory, { recursive: true, force: true })
  })
  const lines = createInterface({ input: child.stdout })
  await once(lines, "line")
  const hold = async () => {
    child.stdin.write("\n")
    await once(lines, "line")
  }
  const end = async () => {
    child.kill("SIGKILL")
    await ended
  }
  return { hold, end, heldMb: () => heldMbOf(child.pid ?? 0, file) }
}

it("the memory that a server holds is told without its garbage", async () => {
  const { hold, heldMb } = await startProgram()
  const before = (await heldMb()) ?? 0
  expect(before).toBeLessThan(GARBAGE_MB / 2)
  await hold()
  const grown = ((await heldMb()) ?? 0) - before
  expect(grown).toBeGreaterThan(HELD_MB - 2)
  expect(grown).toBeLessThan(HELD_MB + 2)
})

it("a server that is down holds nothing that could be told", async () => {
  const { end, heldMb } = await startProgram()
  await end()
  expect(await heldMb()).toBeUndefined()
})

it("a process that does not know the signal is left alone", async () => {
  expect(await heldMbOf(process.pid, join(tmpdir(), "berth-soak-no-such-file"))).toBeUndefined()
})
