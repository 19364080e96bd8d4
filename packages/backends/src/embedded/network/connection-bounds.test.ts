import { requires } from "@berth/testing/requires"
import { afterAll, beforeAll, expect, it } from "vitest"
import type { ConnectionBounds } from "../../connections/bounds.ts"
import { makeWorld, PORT, type Sandbox, type World } from "./testing/world.ts"

/** Far above what these tests send: each test makes one of them small. */
const WIDE: ConnectionBounds = {
  sandbox: 20_000,
  sandboxPerSecond: 20_000,
  sandboxBurst: 20_000,
  together: 64_000,
  togetherPerSecond: 20_000,
  togetherBurst: 20_000,
  ports: undefined,
}
const INTERNET = "198.51.100.10"
const FLOOD = 600
/** At one more a second, a flood would have to take minutes to come near its own size. */
const BURST = 100
const FAR_BELOW_FLOOD = FLOOD / 2
/** How many lists the rules spread connections over. The kernel's count of each was seen to be off by one. */
const LISTS = 64

requires("root", "networkNamespaces").describe("the bound for new connections", () => {
  let world: World
  let hostile: Sandbox
  let neighbour: Sandbox

  beforeAll(async () => {
    world = await makeWorld({ bounds: WIDE })
    await world.host.call("ensure")
    ;[hostile, neighbour] = await Promise.all([join(), join()])
    await world.host.run("nft add table inet passed")
    const hook = "{ type filter hook forward priority 100 ; }"
    await world.host.run(`nft add chain inet passed forward ${hook}`)
    await world.host.run(
      `nft add rule inet passed forward ip daddr ${INTERNET} meta l4proto udp counter`,
    )
  })
  afterAll(() => world?.end())

  const join = async (): Promise<Sandbox> => {
    const sandbox = await world.sandbox()
    await world.host.call("attach", { sandbox: sandbox.id, pid: sandbox.pid })
    return sandbox
  }
  /** The next server of the installation has other bounds, and counts anew. */
  const bound = async (bounds: Partial<ConnectionBounds>) => {
    const { installation, directory, host } = world
    await host.call("create", { installation, directory, bounds: { ...WIDE, ...bounds } })
    await host.call("ensure")
  }
  /** Sends floods in which each packet opens a connection of its own, and counts the packets that pass. */
  const passing = async (...from: Sandbox[]) => {
    const before = await passed()
    await Promise.all(from.map((it) => it.call("flood", { address: INTERNET, packets: FLOOD })))
    return (await passed()) - before
  }
  const passed = async () => {
    const rules = await world.host.run("nft list chain inet passed forward")
    return Number(/packets (\d+)/.exec(rules)?.[1])
  }
  const reaches = async (from: Pick<Sandbox, "call">) =>
    expect(await from.call("dial", { address: INTERNET, port: PORT })).toContain(" hears ")

  it("lets a flood through where it is wide", async () => {
    expect(await passing(hostile)).toBe(FLOOD)
  })

  it("drops connections that one sandbox opens too fast, while its neighbour reaches the internet", async () => {
    await bound({ sandboxPerSecond: 1, sandboxBurst: BURST })
    const through = await passing(hostile)
    // Some kernels count each packet twice.
    expect(through).toBeGreaterThan(BURST * 0.4)
    expect(through).toBeLessThan(FAR_BELOW_FLOOD)
    await reaches(neighbour)
  })

  it("drops connections that all sandboxes open too fast, while the host reaches the internet", async () => {
    await bound({ togetherPerSecond: 1, togetherBurst: BURST })
    const through = await passing(hostile, neighbour)
    expect(through).toBeGreaterThan(BURST * 0.9)
    expect(through).toBeLessThan(FAR_BELOW_FLOOD)
    await reaches(world.host)
  })

  it("refuses connections beyond those of all sandboxes, while the host reaches the internet", async () => {
    const together = LISTS * 4
    await bound({ together })
    const through = await passing(hostile, neighbour)
    expect(through).toBeGreaterThan(together - LISTS)
    expect(through).toBeLessThan(together + 2 * LISTS)
    // A refusal is heard at once. A list may still have a place, by chance.
    const attempts = { address: INTERNET, port: PORT, connections: 20 }
    const { ECONNREFUSED = 0 } = await neighbour.call("hold", attempts)
    expect(ECONNREFUSED).toBeGreaterThan(10)
    await reaches(world.host)
  })
})
