import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type BridgeState, openBridge } from "@berth/bridge/bridge"
import { getFromSandbox } from "@berth/bridge/get"
import { SupervisorHealth } from "@berth/protocol/bridge"
import type { ErrorCode } from "@berth/protocol/errors"
import { newId } from "@berth/protocol/ids"
import { expect, it, onTestFinished } from "vitest"
import { live } from "./life.ts"

const TOKEN = "a-token-for-tests-0123456789abcdefghijkl"
const DEADLINES = { openMs: 500, pingEveryMs: 100, pongMs: 500 }

it("[R3.4] the server takes a frozen supervisor, which accepts and never answers, for down, and goes on when it thaws", async () => {
  const directory = mkdtempSync(join(tmpdir(), "berth-frozen-"))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  writeFileSync(join(directory, "token"), TOKEN, { mode: 0o600 })
  const sandbox = newId.sandbox()
  const supervisor = live("supervisor.ts", [directory, sandbox], () => {})
  onTestFinished(supervisor.kill)

  const address = { path: join(directory, "socket") }
  const numbers: number[] = []
  const failures: ErrorCode[] = []
  let state: BridgeState["kind"] = "connecting"
  const stop = new AbortController()
  const bridge = openBridge(
    {
      address,
      token: TOKEN,
      sandbox,
      lastSeen: 0,
      deadlines: DEADLINES,
      onEvents: async (events) => {
        numbers.push(...events.map(({ sequence }) => sequence))
      },
      onState: (next) => {
        state = next.kind
        if (next.kind === "down") failures.push(next.reason.code)
      },
    },
    stop.signal,
  )
  onTestFinished(async () => {
    stop.abort()
    await bridge.closed
  })
  const wait = { timeout: 15_000 }
  await expect.poll(() => numbers.length, wait).toBeGreaterThan(100)

  failures.length = 0
  supervisor.child.kill("SIGSTOP")
  // The live connection fails first, then connections that the kernel accepts in the supervisor's name.
  await expect.poll(() => failures.length, wait).toBeGreaterThan(2)
  expect(new Set(failures)).toEqual(new Set(["bridge.timed_out"]))
  const health = { address, token: TOKEN, path: "/health", schema: SupervisorHealth }
  await expect(getFromSandbox({ ...health, deadlineMs: 300 }, stop.signal)).rejects.toMatchObject({
    code: "bridge.timed_out",
  })
  const before = numbers.length

  supervisor.child.kill("SIGCONT")
  await expect.poll(() => state, wait).toBe("up")
  await expect.poll(() => numbers.length, wait).toBeGreaterThan(before + 100)
  expect(numbers).toEqual(Array.from(numbers, (_, place) => place + 1))
  expect(await getFromSandbox(health, stop.signal)).toMatchObject({ sandbox, ready: true })
})
