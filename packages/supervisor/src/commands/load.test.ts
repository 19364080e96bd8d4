import { spawn } from "node:child_process"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { SUPERVISOR_FLAGS } from "@berth/protocol/inside"
import { sized } from "@berth/testing/sampled"
import { describe, expect, it, onTestFinished } from "vitest"
import { temporaryDirectory } from "../journal/testing/events.ts"
import { until } from "../processes/testing/until.ts"
import { readProcess } from "../processes/tree/proc.ts"
import { ask, run } from "./testing/stage.ts"

/** A supervisor is to stay below 150 MB, of which it takes 60 when it is idle. */
const MAX_GROWTH_BYTES = 90 * 1024 * 1024
/** More than twice the growth that is allowed: a supervisor that kept the flood would be seen. */
const FLOOD_BYTES = 1024 ** 2 * sized("MiB of a flood of output", { few: 192, all: 512 })

/** Starts a supervisor in a process of its own, so that its memory can be measured. */
const supervisor = async () => {
  const directory = temporaryDirectory()
  const program = fileURLToPath(new URL("./testing/supervisor.ts", import.meta.url))
  const args = [...SUPERVISOR_FLAGS, "--conditions=source", program, directory]
  const child = spawn(process.execPath, args, { stdio: ["pipe", "pipe", "inherit"] })
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
  it("grows by less than 90 MiB while a client does not read a flood, which waits and then arrives whole", async () => {
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
