import { requires } from "@berth/testing/requires"
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import {
  HOST_ADDRESS,
  INTERNET,
  makeWorld,
  NOT_INTERNET,
  OUTSIDE_ADDRESS,
  PORT,
  type Sandbox,
  type World,
} from "./testing/world.ts"

/** The host's name servers. The way to them stands open, and nothing else may come through. */
const RESOLVERS = ["10.77.0.5"]

/** The error that a program inside gets for a refusal. */
const REFUSED = "ECONNREFUSED"

requires("root", "networkNamespaces").describe("a sandbox with the policy open", () => {
  let world: World
  let sandbox: Sandbox
  let neighbour: Sandbox
  let address: string
  let neighbourAddress: string
  let gateway: string

  beforeAll(async () => {
    world = await makeWorld()
    const { host } = world
    await host.call("resolvers", RESOLVERS)
    await host.call("ensure")
    sandbox = await world.sandbox()
    neighbour = await world.sandbox()
    ;({ address, gateway } = await host.call("reserve", sandbox.id))
    neighbourAddress = (await host.call("reserve", neighbour.id)).address
    await host.call("attach", { sandbox: sandbox.id, pid: sandbox.pid })
    await host.call("attach", {
      sandbox: neighbour.id,
      pid: neighbour.pid,
      allow: ["10.77.0.0/24", "10.77.0.5/32", "127.0.0.0/8", "192.0.2.2/32", "198.18.0.0/15"],
    })
    await neighbour.call("listen", { port: PORT, name: "neighbour" })
  })
  afterAll(() => world.end())

  const dial = (to: string, from = sandbox) => from.call("dial", { address: to, port: PORT })

  const withoutRules = async <Result>(work: () => Promise<Result>): Promise<Result> => {
    await world.dropTable()
    await world.dropBarriers()
    try {
      return await work()
    } finally {
      await world.host.call("ensure")
    }
  }

  /** Proves first that the address answers when no rules stand in between. */
  const expectFenced = async (to: string, from = sandbox) => {
    expect(await withoutRules(() => dial(to, from))).toContain(" hears ")
    expect(await dial(to, from)).toBe(REFUSED)
  }

  it.each(INTERNET)("reaches the internet at %s, with the host's address", async (internet) => {
    expect(await dial(internet)).toBe(`outside at ${internet} hears ${HOST_ADDRESS}`)
  })

  it("reaches the internet over UDP", async () => {
    expect(await sandbox.call("ask", { address: OUTSIDE_ADDRESS, port: PORT })).toBe(
      `outside hears ${HOST_ADDRESS} from ${OUTSIDE_ADDRESS}`,
    )
    await world.outside.call("arrived", "question")
  })

  it.each(Object.entries(NOT_INTERNET))("does not reach %s", async (_, elsewhere) => {
    await expectFenced(elsewhere)
  })

  it("sends no packet to an address that it may not reach", async () => {
    const packets = Object.values(NOT_INTERNET).map((to) => ({ address: to, port: PORT, text: to }))
    const last = { address: "198.51.100.10", port: PORT, text: "last" }
    const received = async () => {
      await sandbox.call("send", [...packets, last])
      return (await world.outside.call("arrived", "last")).map(({ text }) => text)
    }
    expect(await withoutRules(received)).toEqual([...Object.values(NOT_INTERNET), "last"])
    expect(await received()).toEqual(["last"])
  })

  describe("and the host", () => {
    const hostReceived = async () => {
      await world.host.call("send", [{ address: HOST_ADDRESS, port: PORT, text: "last" }])
      return (await world.host.call("arrived", "last")).map(({ text }) => text)
    }

    it("does not reach the host at its address", () => expectFenced(HOST_ADDRESS))

    it("does not reach the host at the gateway", () => expectFenced(gateway))

    it("does not reach the host's loopback, though it routes 127.0.0.0/8 to the gateway", async () => {
      const { host } = world
      await host.call("resolvers", ["127.0.0.53"])
      await host.call("ensure")
      const router = await world.sandbox()
      await host.call("attach", { sandbox: router.id, pid: router.pid, allow: ["127.0.0.0/8"] })
      await router.run("sysctl -q net.ipv4.conf.eth0.route_localnet=1")
      await router.ip(
        "route delete local 127.0.0.0/8 dev lo table local",
        "route delete local 127.0.0.1 dev lo table local",
        `route add 127.0.0.1 via ${gateway}`,
      )
      const received = async () => {
        await router.call("send", [{ address: "127.0.0.1", port: PORT, text: "to loopback" }])
        return hostReceived()
      }
      expect(await withoutRules(received)).toEqual(["to loopback", "last"])
      expect(await received()).toEqual(["last"])
      await host.call("detach", router.id)
      await host.call("resolvers", RESOLVERS)
      await host.call("ensure")
    })

    /** A sandbox whose veth has ARP: nothing else finds the other end for these packets. */
    const sandboxWithArp = async () => {
      const { host } = world
      const other = await world.sandbox()
      await host.call("attach", { sandbox: other.id, pid: other.pid })
      await host.ip(`link set ${other.device} arp on`)
      await other.ip("link set eth0 arp on")
      onTestFinished(() => host.call("detach", other.id))
      return other
    }

    it("reaches the host neither by broadcast nor by multicast", async () => {
      const other = await sandboxWithArp()
      const packets = ["255.255.255.255", "224.0.0.1"].map((to) => ({
        address: to,
        port: PORT,
        text: to,
      }))
      const received = async () => {
        await other.call("send", packets)
        return hostReceived()
      }
      expect(await withoutRules(received)).toEqual(["255.255.255.255", "224.0.0.1", "last"])
      expect(await received()).toEqual(["last"])
    })

    it("has no IPv6 to reach the host by", async () => {
      const { host } = world
      expect(await sandbox.run("ip -6 address show dev eth0")).toBe("")
      expect(await host.run(`ip -6 address show dev ${sandbox.device}`)).toBe("")
      // Addresses that somebody assigns do not open the rules.
      const other = await sandboxWithArp()
      await host.run(`sysctl -q net.ipv6.conf.${other.device}.disable_ipv6=0`)
      await host.ip(`address add fd00::1/64 dev ${other.device} nodad`)
      await other.ip("address add fd00::2/64 dev eth0 nodad")
      await host.call("listen", { port: 7006, host: "::", name: "host" })
      const over6 = () => other.call("dial", { address: "fd00::1", port: 7006, silenceMs: 500 })
      expect(await withoutRules(over6)).toContain("host at fd00::1")
      expect(await over6()).toBe("silence")
    })
  })

  describe("and its neighbours", () => {
    it("does not reach a neighbour", () => expectFenced(neighbourAddress))

    it("cannot speak with a neighbour's address, nor any other than its own", async () => {
      await sandbox.ip(
        "address add 203.0.113.77/32 dev eth0",
        `address add ${neighbourAddress}/32 dev eth0`,
      )
      const packets = ["203.0.113.77", neighbourAddress, address].map((localAddress) => ({
        address: "198.51.100.10",
        port: PORT,
        text: `as ${localAddress}`,
        localAddress,
      }))
      const received = async () => {
        await sandbox.call("send", packets)
        return (await world.outside.call("arrived", `as ${address}`)).map(({ text }) => text)
      }
      expect(await withoutRules(received)).toEqual(packets.map(({ text }) => text))
      expect(await received()).toEqual([`as ${address}`])
      await sandbox.ip(
        "address delete 203.0.113.77/32 dev eth0",
        `address delete ${neighbourAddress}/32 dev eth0`,
      )
    })
  })

  describe("whose workspace allows a range", () => {
    it("reaches that range, and its neighbour does not", async () => {
      expect(await dial("10.77.0.5", neighbour)).toBe(`outside at 10.77.0.5 hears ${HOST_ADDRESS}`)
      expect(await dial("10.77.0.5", sandbox)).toBe(REFUSED)
    })

    it("reaches nothing beside that range", async () => {
      await expectFenced("172.20.0.5", neighbour)
    })

    it("reaches neither the host nor a neighbour through that range", async () => {
      await expectFenced(HOST_ADDRESS, neighbour)
      await sandbox.call("listen", { port: PORT, name: "sandbox" })
      await expectFenced(address, neighbour)
    })
  })

  describe("on a host that translates addresses itself", () => {
    const translate = async (rule: string) => {
      const { host } = world
      await host.run("nft add table ip site")
      await host.run("nft add chain ip site pre { type nat hook prerouting priority dstnat; }")
      await host.run(`nft add rule ip site pre tcp dport 7080 ${rule}`)
      onTestFinished(async () => {
        await host.run("nft delete table ip site")
      })
    }
    const knock =
      (to: string, from = sandbox) =>
      () =>
        from.call("dial", { address: to, port: 7080 })

    it("is not led from the internet to a private network", async () => {
      await translate(`dnat to 172.20.0.5:${PORT}`)
      expect(await withoutRules(knock("198.51.100.10"))).toContain("outside at 172.20.0.5")
      expect(await knock("198.51.100.10")()).toBe(REFUSED)
    })

    it("is not led from the internet to the host", async () => {
      await translate(`redirect to :${PORT}`)
      expect(await withoutRules(knock("198.51.100.10"))).toContain("host at")
      expect(await knock("198.51.100.10")()).toBe(REFUSED)
    })

    it("is not led from the internet to a neighbour", async () => {
      await translate(`dnat to ${neighbourAddress}:${PORT}`)
      expect(await withoutRules(knock("198.51.100.10"))).toContain("neighbour at")
      expect(await knock("198.51.100.10")()).toBe(REFUSED)
    })

    it("is not led from a private network to the internet", async () => {
      await translate(`dnat to 198.51.100.10:${PORT}`)
      expect(await withoutRules(knock("172.20.0.5"))).toContain("outside at 198.51.100.10")
      expect(await knock("172.20.0.5")()).toBe(REFUSED)
    })

    it("does not reach a service that the host publishes on its own address, even in an allowed range", async () => {
      await translate(`dnat to 10.77.0.5:${PORT}`)
      expect(await withoutRules(knock(HOST_ADDRESS, neighbour))).toContain("outside at 10.77.0.5")
      expect(await knock(HOST_ADDRESS, neighbour)()).toBe(REFUSED)
    })
  })

  it("is not reached from outside, though the outside routes its address to the host", async () => {
    const knock = () =>
      world.outside.call("dial", { address: neighbourAddress, port: PORT, silenceMs: 500 })
    expect(await withoutRules(knock)).toContain("neighbour at")
    expect(await knock()).toBe("silence")
  })

  describe("after somebody flushed the host's firewall", () => {
    const flushed = async <Result>(work: () => Promise<Result>): Promise<Result> => {
      await world.host.run("nft flush ruleset")
      try {
        return await work()
      } finally {
        await world.host.call("ensure")
      }
    }
    const silence = (to: string) => () =>
      sandbox.call("dial", { address: to, port: PORT, silenceMs: 500 })

    it.each([
      ["the host at its address", HOST_ADDRESS],
      ["a private network", "10.77.0.5"],
      ["the internet", "198.51.100.10"],
    ])("[R1.11] is cut off from %s, without any act of a server", async (_, to) => {
      expect(await flushed(silence(to))).toBe("silence")
    })

    it("[R1.11] is cut off from the host at the gateway and from its neighbours", async () => {
      expect(await flushed(silence(gateway))).toBe("silence")
      expect(await flushed(silence(neighbourAddress))).toBe("silence")
    })

    it("sends the host no packet over UDP", async () => {
      await flushed(async () => {
        await sandbox.call("send", [{ address: HOST_ADDRESS, port: PORT, text: "flushed" }])
        await world.host.call("send", [{ address: HOST_ADDRESS, port: PORT, text: "last" }])
        const texts = (await world.host.call("arrived", "last")).map(({ text }) => text)
        expect(texts).toEqual(["last"])
      })
    })

    it("reaches the internet again and stays fenced once this server or the next restored the fence", async () => {
      const next = await world.server()
      await next.call("resolvers", RESOLVERS)
      for (const server of [world.host, next]) {
        await world.host.run("nft flush ruleset")
        expect(await server.call("restore")).toBe(true)
        expect(await server.call("restore")).toBe(false)
        expect(await dial("198.51.100.10")).toContain("outside at")
        expect(await dial(HOST_ADDRESS)).toBe(REFUSED)
        expect(await dial("10.77.0.5", neighbour)).toContain("outside at")
      }
      await next.kill()
    })

    it("leaves the marks of the host's own rules alone", async () => {
      const { host } = world
      await host.run("nft add table ip site")
      onTestFinished(async () => {
        await host.run("nft delete table ip site")
      })
      await host.run("nft add chain ip site pre { type filter hook prerouting priority -150; }")
      await host.run("nft add chain ip site out { type filter hook forward priority 0; }")
      await host.run(`nft add rule ip site pre iifname "${sandbox.device}" meta mark set 0x7`)
      await host.run("nft add rule ip site out meta mark and 0xff == 0x7 counter")
      expect(await dial("198.51.100.10")).toContain("outside at")
      expect(await host.run("nft list chain ip site out")).toMatch(/packets [1-9]/)
    })
  })
})
