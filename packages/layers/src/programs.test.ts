import { once } from "node:events"
import { text } from "node:stream/consumers"
import { expect, it, onTestFinished } from "vitest"
import { startProgram } from "./io/programs.ts"

/** Runs a program to its end. A process that it left outside of its group holds its outputs. */
const endedProgram = async (status: number, signal?: AbortSignal) => {
  const script = `setsid sleep 1000 & echo some words >&2; echo $$ $!; exit ${status}`
  const program = startProgram(["sh", "-c", script], { signal, on: "/tree" })
  const [said] = await once(program.stdout, "data")
  program.stdout.pause()
  const [pid, left] = String(said).split(" ").map(Number) as [number, number]
  onTestFinished(() => void process.kill(left, "SIGKILL"))
  await expect.poll(() => isThere(pid)).toBe(false)
  return program
}

const isThere = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

it("tells of a failure when the program is stopped before its outputs have ended", async () => {
  const program = await endedProgram(3)
  program.stop()
  await expect(program.ended).rejects.toThrow("some words")
})

it("fails an output that a cancel cuts short after a good end", async () => {
  const cancel = new AbortController()
  const program = await endedProgram(0, cancel.signal)
  await program.ended
  const reading = text(program.stdout)
  cancel.abort(new Error("no longer wanted"))
  await expect(reading).rejects.toThrow("no longer wanted")
})
