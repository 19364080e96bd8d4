import { chownSync, cpSync, mkdirSync, readdirSync } from "node:fs"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { text } from "node:stream/consumers"
import { fileURLToPath } from "node:url"
import { requires } from "@berth/testing/requires"
import { describe, expect, it } from "vitest"
import { exitOf, makeDir, startProcess } from "./testing/berth.ts"
import { expectLogForPeople } from "./testing/log-for-people.ts"

const BUNDLE = fileURLToPath(new URL("../dist/bundle", import.meta.url))
const SERVE = ["serve", "--port", "0", "--data-dir"]

/** Copies the bundle without its compiled code. */
const copyBundle = () => {
  const copy = join(makeDir(), "bundle")
  cpSync(BUNDLE, copy, { recursive: true, filter: (path) => !path.startsWith(`${BUNDLE}/cache`) })
  const compiled = join(copy, "cache")
  mkdirSync(compiled)
  return { command: join(copy, "berth.js"), compiled }
}

const help = async (command: string) => {
  // The tests' compile cache would be used instead of the bundle's own.
  const env = { NODE_COMPILE_CACHE: undefined }
  const child = startProcess(process.execPath, [command, "--help"], { env })
  const [stdout, status] = await Promise.all([text(child.stdout), exitOf(child)])
  expect(stdout).toContain("Usage: berth COMMAND")
  expect(status).toBe(0)
}

describe("the bundle", () => {
  it("logs for people when its log is a terminal", async () => {
    const command = [process.execPath, join(BUNDLE, "berth.js"), ...SERVE, makeDir()].join(" ")
    await expectLogForPeople(command)
  })

  it("looks for the Docker engine, and reports that it does not answer", async () => {
    const engine = `unix://${makeDir()}/none.sock`
    const args = [...SERVE, makeDir(), "--backend", "docker", "--engine", engine]
    const child = startProcess(process.execPath, [join(BUNDLE, "berth.js"), ...args])
    const said: unknown[] = []
    for await (const line of createInterface({ input: child.stderr })) {
      const { op, err } = JSON.parse(line)
      if (op === "backend.open" && said.push(err) > 0) break
    }
    expect(said).toMatchObject([{ code: "backend.unavailable" }])
    child.kill("SIGTERM")
    expect(await exitOf(child)).toBe(0)
  })

  it("keeps what node compiles, for the next start", async () => {
    const { command, compiled } = copyBundle()
    await help(command)
    expect(readdirSync(compiled)).not.toEqual([])
  })

  requires("root").it("writes no compiled code into a folder of another user", async () => {
    const { command, compiled } = copyBundle()
    chownSync(compiled, 65_534, 65_534)
    await help(command)
    expect(readdirSync(compiled)).toEqual([])
  })
})
