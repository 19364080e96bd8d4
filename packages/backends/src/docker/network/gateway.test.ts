import { execFileSync } from "node:child_process"
import { startChild } from "@berth/host/child"
import { newId } from "@berth/protocol/ids"
import { requires } from "@berth/testing/requires"
import { expect, it, onTestFinished } from "vitest"
import type { Engine } from "../engine/engine.ts"
import { GATEWAY_TABLE, keepToGateway } from "./gateway.ts"
import { networkNames } from "./names.ts"

const NAMES = networkNames(newId.installation(), [])
const ADDRESS = "192.0.2.7"
const never = new AbortController().signal

/** Starts a process in a network namespace of its own, with a device, and an engine that has it as a container. */
const startContainer = async () => {
  const script = "ip link set lo up && echo up && exec sleep 1000"
  const child = startChild(["unshare", "--net", "sh", "-c", script], { signal: undefined })
  child.closed.catch(() => {})
  onTestFinished(() => child.kill())
  for await (const _ of child.stdout) break
  const inside = (...command: string[]): string =>
    execFileSync("nsenter", [`--net=/proc/${child.pid}/ns/net`, ...command], { encoding: "utf8" })
  const Networks = { [NAMES.network]: { Gateway: "192.0.2.1", IPAddress: ADDRESS } }
  const container = { State: { Running: true, Pid: child.pid }, NetworkSettings: { Networks } }
  const answer = { status: 200, body: Buffer.from(JSON.stringify(container)), said: "" }
  const engine = { ask: async () => answer } as Partial<Engine> as Engine
  const keep = () => keepToGateway(engine, "c", { names: NAMES, allow: [] }, never)
  return { inside, keep, kill: () => child.kill() }
}

requires("root").describe("keeping a container to its gateway", () => {
  it("waits for an address that the container gets late", async () => {
    const { inside, keep } = await startContainer()
    const kept = keep()
    setTimeout(() => inside("ip", "address", "add", ADDRESS, "dev", "lo"), 300)
    await kept
    expect(inside("nft", "list", "tables")).toContain(GATEWAY_TABLE)
  })

  it("says why it cannot be done", async () => {
    const { keep } = await startContainer()
    await expect(keep()).rejects.toThrow(
      `the container cannot be kept to its gateway: its namespace lacks the address ${ADDRESS}`,
    )
  })

  it("says what the programs of the host say", async () => {
    const { keep, kill } = await startContainer()
    kill()
    await expect(keep()).rejects.toThrow(/cannot be kept to its gateway: nsenter: .*ns\/net/)
  })
})
