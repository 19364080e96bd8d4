import { spawn } from "node:child_process"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { SUPERVISOR_FLAGS } from "@berth/protocol/inside"
import { requires } from "@berth/testing/requires"
import { describe, expect, it, onTestFinished } from "vitest"
import { temporaryDirectory } from "../journal/testing/events.ts"
import { until } from "../processes/testing/until.ts"
import { readProcess } from "../processes/tree/proc.ts"
import { ask, run, sh } from "./testing/stage.ts"

/** A supervisor is to stay below 150 MB, of which it takes 60 when nobody asks for anything. */
const MAX_GROWTH_BYTES = 90 * 1024 * 1024
const FLOOD_BYTES = 2 * 1024 ** 3
const COUNT = 1_000

/** As in a sandbox, where a look at all processes finds no strangers. */
const ALONE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]

/** A supervisor whose memory is its own. */
const supervisor = async (wrapper: readonly string[] = []) => {
  const directory = temporaryDirectory()
  const program = fileURLToPath(new URL("./testing/supervisor.ts", import.meta.url))
  const node = [process.execPath, ...SUPERVISOR_FLAGS, "--conditions=source", program, directory]
  const [file = "", ...args] = [...wrapper, ...node]
  const child = spawn(file, args, {
    stdio: ["pipe", "pipe", "inherit"],
  })
  const exited = new Promise((resolve) => child.once("exit", resolve))
  onTestFinished(async () => {
    child.stdin.end()
    await exited
  })
  await new Promise((resolve) => child.stdout.once("data", resolve))
  const path = join(directory, "socket")
  const peakBytes = async () => Number((await ask(path, "GET", "/peak")).body)
  const baseBytes = await peakBytes()
  return { path, grownBytes: async () => (await peakBytes()) - baseBytes }
}

describe("the supervisor's memory", () => {
  it("stays flat while a client reads nothing of a flood, which then waits, and all of it arrives", async () => {
    const { path, grownBytes } = await supervisor()
    const blocks = ["bs=64k", `count=${FLOOD_BYTES / (64 * 1024)}`, "status=none"]
    const flood = { command: ["dd", "if=/dev/zero", ...blocks] }
    const client = await run(path, flood, { keep: false })
    const { pid } = await client.message("started")
    await client.until(() => client.bytes[1] > 1_000_000)
    client.websocket.pause()
    await until(() => readProcess(pid)?.state === "S")
    expect(client.bytes[1]).toBeLessThan(FLOOD_BYTES / 2)
    client.websocket.resume()
    expect(await client.message("exit")).toMatchObject({ status: 0 })
    expect(client.bytes[1]).toBe(FLOOD_BYTES)
    expect(await grownBytes()).toBeLessThan(MAX_GROWTH_BYTES)
  }, 120_000)
})

requires("root").describe("a thousand commands at once", () => {
  it("say what they should and end as they should, and the supervisor's memory stays flat", async () => {
    const { path, grownBytes } = await supervisor(ALONE)
    const clients = await Promise.all(
      Array.from({ length: COUNT }, (_, n) =>
        run(path, sh(`read x; echo $x; exit ${n % 100}`, { stdin: true })),
      ),
    )
    for (const client of clients) await client.message("started")
    expect((await ask(path, "GET", "/commands")).body.commands).toHaveLength(COUNT)
    for (const [n, client] of clients.entries()) client.stdin(`${n}\n`)
    for (const [n, client] of clients.entries()) {
      expect(await client.message("exit")).toMatchObject({ status: n % 100, signal: null })
      expect(client.stdout).toBe(`${n}\n`)
    }
    expect(await grownBytes()).toBeLessThan(MAX_GROWTH_BYTES)
    expect((await ask(path, "GET", "/commands")).body.commands).toEqual([])
  }, 120_000)
})
