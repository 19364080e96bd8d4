import { requires } from "@berth/testing/requires"
import { afterAll, beforeAll, expect, it, vi } from "vitest"
import type { ConnectionBounds } from "../../connections/bounds.ts"
import { makeWorld, PORT, type Sandbox, type World } from "./testing/world.ts"

/** Small, so that the attacks can be small. The kernel's own maximum cannot be set for a namespace. */
const BOUNDS: ConnectionBounds = {
  sandbox: 200,
  sandboxPerSecond: 1_000,
  sandboxBurst: 2_000,
  together: 6_400,
  togetherPerSecond: 10_000,
  togetherBurst: 10_000,
  ports: { first: 2_000, last: 30_000 },
}
const FLOOD = 500
/** Connections of the test itself that are still tracked. */
const OWN = 10
const INTERNET = "198.51.100.10"
/** A port of the world outside, whose connections stay open. */
const STAYING_PORT = PORT + 1
const POLL = { timeout: 30_000, interval: 50 }

requires("root", "networkNamespaces").describe(
  "the tracked connections of sandboxes and host",
  () => {
    let world: World
    let hostile: Sandbox
    let neighbour: Sandbox

    beforeAll(async () => {
      world = await makeWorld({ bounds: BOUNDS })
      await world.outside.call("listen", { port: STAYING_PORT, name: "outside", stays: true })
      await world.host.call("ensure")
      ;[hostile, neighbour] = await Promise.all([join(), join()])
    })
    afterAll(() => world?.end())

    const join = async (): Promise<Sandbox> => {
      const sandbox = await world.sandbox()
      await world.host.call("attach", { sandbox: sandbox.id, pid: sandbox.pid })
      return sandbox
    }
    const tracked = async () =>
      Number(await world.host.run("sysctl -n net.netfilter.nf_conntrack_count"))
    const reaches = async (from: Pick<Sandbox, "call">) => {
      const heard = await from.call("dial", { address: INTERNET, port: PORT })
      expect(heard).toContain(" hears ")
    }
    const held = { address: INTERNET, port: STAYING_PORT, connections: BOUNDS.sandbox + 5 }
    const dropBounds = () => world.host.run(`nft delete table inet ${world.names.connectionsTable}`)

    it("are bounded for packets that nobody answers, while neighbour and host reach the internet", async () => {
      await hostile.call("flood", { address: INTERNET, packets: FLOOD })
      expect(await tracked()).toBeGreaterThanOrEqual(BOUNDS.sandbox)
      expect(await tracked()).toBeLessThan(BOUNDS.sandbox + OWN)
      await reaches(neighbour)
      await reaches(world.host)
      // The sandbox hears at once what is wrong.
      expect(await hostile.call("dial", { address: INTERNET, port: PORT })).toBe("ECONNREFUSED")
    })

    it("are not bounded without the rules, which `ensure` puts back", async () => {
      const flooder = await join()
      await dropBounds()
      const before = await tracked()
      await flooder.call("flood", { address: INTERNET, packets: FLOOD })
      expect(await tracked()).toBeGreaterThanOrEqual(before + FLOOD)
      await world.host.call("ensure")
      const bounded = await tracked()
      await flooder.call("flood", { address: "203.0.113.5", packets: FLOOD })
      expect(await tracked()).toBeLessThan(bounded + BOUNDS.sandbox + OWN)
    })

    it("are bounded while they stay open, and free again when they end", async () => {
      const holder = await join()
      expect(await holder.call("hold", held)).toEqual({ open: BOUNDS.sandbox, ECONNREFUSED: 5 })
      // A fence that is made anew does not forget them.
      await world.host.run(`nft delete table inet ${world.names.table}`)
      await world.host.call("ensure")
      const more = { ...held, connections: 20 }
      expect(await holder.call("hold", more)).toEqual({ ECONNREFUSED: 20 })
      await reaches(neighbour)
      await holder.call("letGo")
      await vi.waitFor(() => reaches(holder), POLL)
    })

    it("are bounded where they were opened before all rules were flushed and put back", async () => {
      const holder = await join()
      const before = await tracked()
      expect(await holder.call("hold", held)).toMatchObject({ open: BOUNDS.sandbox })
      await world.dropTable()
      expect(await world.host.call("restore")).toBe(true)
      expect(await holder.call("hold", held)).toMatchObject({ open: BOUNDS.sandbox })
      expect(await tracked()).toBeLessThan(before + BOUNDS.sandbox + OWN)
      // Packets of an earlier connection would open one more, which is refused.
      await vi.waitFor(async () => expect(await holder.call("useHeld")).toBe(BOUNDS.sandbox), POLL)
    })

    it("stay free for a sandbox that asks for more names than the bound", async () => {
      const { gateway } = await world.host.call("reserve", neighbour.id)
      const question = { address: gateway, port: 53, text: "question" }
      await neighbour.call(
        "send",
        Array.from({ length: BOUNDS.sandbox + OWN }, () => question),
      )
      await reaches(neighbour)
    })

    it("use the ports of the bounds, and none of the host's own", async () => {
      const ports = async (sandbox: Sandbox) => {
        await sandbox.call("send", [{ address: INTERNET, port: PORT, text: "from which port" }])
        const arrivals = await world.outside.call("arrived", "from which port")
        return arrivals.filter(({ text }) => text === "from which port").map(({ port }) => port)
      }
      const [port = 0] = await ports(neighbour)
      expect(port).toBeGreaterThanOrEqual(2_000)
      expect(port).toBeLessThanOrEqual(30_000)
    })

    it("need one permanent entry in the neighbour table at each end", async () => {
      for (const { device } of [hostile, neighbour]) {
        const entries = (await world.host.run(`ip neighbour show dev ${device}`)).trim().split("\n")
        expect(entries).toEqual([expect.stringContaining("PERMANENT")])
      }
      const inside = (await hostile.run("ip neighbour show dev eth0")).trim().split("\n")
      expect(inside).toEqual([expect.stringContaining("PERMANENT")])
    })

    it("fill only a part of the neighbour table where the internet is on the host's own link", async () => {
      const { host } = world
      await host.ip("route add 203.0.113.0/24 dev up0", "route add 198.51.100.128/25 dev up0")
      const addresses = [
        ...Array.from({ length: 254 }, (_, last) => `203.0.113.${last + 1}`),
        ...Array.from({ length: 126 }, (_, last) => `198.51.100.${last + 129}`),
      ]
      for (let at = 0; at < addresses.length; at += BOUNDS.sandbox - OWN) {
        const scanner = await join()
        const some = addresses.slice(at, at + BOUNDS.sandbox - OWN)
        await scanner.call(
          "send",
          some.map((address) => ({ address, port: 9, text: "x" })),
        )
      }
      const entries = (await host.run("ip neighbour show dev up0")).trim().split("\n")
      expect(entries.length).toBeLessThanOrEqual(256 + OWN)
      await reaches(host)
    })

    it("leave no rules behind with the last sandbox", async () => {
      for (const sandbox of await world.host.call("list")) await world.host.call("detach", sandbox)
      expect(await world.host.run("nft list tables")).not.toContain(world.names.table)
    })
  },
)
