import { requires } from "@berth/testing/requires"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { HOST_ADDRESS, makeWorld, type Sandbox, type World } from "./testing/world.ts"

requires("root", "networkNamespaces").describe("names in a sandbox", () => {
  let world: World
  let sandbox: Sandbox
  let resolver: string

  beforeAll(async () => {
    world = await makeWorld()
    sandbox = await world.sandbox()
    ;({ resolver } = await world.host.call("reserve", sandbox.id))
    await world.outside.call("listen", { port: 53, host: "10.77.0.5", name: "first" })
    await world.outside.call("listen", { port: 53, host: "192.168.77.5", name: "second" })
    await world.host.call("listen", { port: 53, host: "127.0.0.53", name: "loopback" })
    await world.host.call("listen", { port: 53, host: HOST_ADDRESS, name: "own" })
    await world.host.call("attach", { sandbox: sandbox.id, pid: sandbox.pid })
    await world.host.call("listen", { port: 53, host: resolver, name: "gateway" })
  })
  afterAll(() => world.end())

  const use = async (...servers: string[]) => {
    await world.host.call("resolvers", servers)
    await world.host.call("ensure")
  }
  const query = { udp: "ask", tcp: "dial" } as const

  describe.each(["udp", "tcp"] as const)("over %s", (protocol) => {
    const ask = () => sandbox.call(query[protocol], { address: resolver, port: 53 })

    it("are answered by the host's name server, in a private network that stays closed", async () => {
      await use("10.77.0.5")
      expect(await ask()).toMatch(/^first .*hears 192\.0\.2\.2/)
      expect(await sandbox.call("dial", { address: "10.77.0.5", port: 53 })).toBe("ECONNREFUSED")
    })

    it("follow the host to another name server", async () => {
      await use("10.77.0.5")
      await ask()
      await use("192.168.77.5", "10.77.0.5")
      expect(await ask()).toMatch(/^second /)
    })

    it("are answered by a name server on the host's loopback, which hears the host itself", async () => {
      await use("127.0.0.53")
      expect(await ask()).toMatch(/^loopback .*hears 127\.0\.0\.53/)
    })

    it("are answered by a name server on the host's own address", async () => {
      await use(HOST_ADDRESS)
      expect(await ask()).toMatch(new RegExp(`^own .*hears ${HOST_ADDRESS}`))
    })
  })

  it("are refused on a host without name servers, though one listens at the gateway", async () => {
    await use("10.77.0.5")
    await use()
    expect(await sandbox.call("dial", { address: resolver, port: 53 })).toBe("ECONNREFUSED")
  })

  it("close the host's loopback to the links again when the name server moves away", async () => {
    const setting = `sysctl -n net.ipv4.conf.${sandbox.device}.route_localnet`
    await use("127.0.0.53")
    expect(await world.host.run(setting)).toBe("1\n")
    await use("10.77.0.5")
    expect(await world.host.run(setting)).toBe("0\n")
  })

  describe("behind a firewall that refuses by default", () => {
    const allWorks = async () => {
      await use("127.0.0.53")
      expect(await sandbox.call("dial", { address: resolver, port: 53 })).toMatch(/^loopback /)
      expect(await sandbox.call("ask", { address: resolver, port: 53 })).toMatch(/^loopback /)
      expect(await sandbox.call("dial", { address: "198.51.100.10", port: 7000 })).toMatch(
        /^outside /,
      )
    }
    const nothingWorks = async () => {
      const quick = { silenceMs: 300 }
      expect(await sandbox.call("dial", { address: resolver, port: 53, ...quick })).toBe("silence")
      const internet = { address: "198.51.100.10", port: 7000 }
      expect(await sandbox.call("dial", { ...internet, ...quick })).toBe("silence")
    }
    const rules = () => world.host.run("nft list ruleset")

    it("reach their server through the policies of iptables, whose rules stay readable", async () => {
      await use("127.0.0.53")
      const { host } = world
      await host.run("iptables -P FORWARD DROP")
      await host.run("iptables -P INPUT DROP")
      await host.run("iptables -A FORWARD -s 10.9.9.9 -j ACCEPT")
      const before = await host.run("iptables -S")
      await nothingWorks()
      await allWorks()
      const opened = await host.run("iptables -S")
      await allWorks()
      expect(await host.run("iptables -S")).toBe(opened)
      expect(opened).toContain(world.installation)
      await world.host.call("detach", sandbox.id)
      expect(await host.run("iptables -S")).toBe(before)
      await host.run("nft flush ruleset")
      await host.call("attach", { sandbox: sandbox.id, pid: sandbox.pid })
    })

    it("reach their server through the policies of the older iptables", async () => {
      const { host } = world
      await use("127.0.0.53")
      for (const chain of ["FORWARD", "INPUT"]) await host.run(`iptables-legacy -P ${chain} DROP`)
      const before = await host.run("iptables-legacy -S")
      await nothingWorks()
      await allWorks()
      await host.call("detach", sandbox.id)
      expect(await host.run("iptables-legacy -S")).toBe(before)
      for (const chain of ["FORWARD", "INPUT"]) await host.run(`iptables-legacy -P ${chain} ACCEPT`)
      await host.call("attach", { sandbox: sandbox.id, pid: sandbox.pid })
    })

    it("reach their server through the last rule of iptables", async () => {
      await use("127.0.0.53")
      const { host } = world
      await host.run("iptables -A FORWARD -s 10.9.9.9 -j ACCEPT")
      for (const chain of ["FORWARD", "INPUT"]) await host.run(`iptables -A ${chain} -j DROP`)
      await nothingWorks()
      await allWorks()
      expect((await host.run("iptables -S FORWARD")).trim()).toMatch(/-A FORWARD -j DROP$/)
      await host.run("nft flush ruleset")
    })

    it.each([
      ["a policy", "policy drop;", ""],
      ["a last rule", "policy accept;", "counter drop"],
    ])("reach their server through %s of nft", async (_, policy, last) => {
      const { host } = world
      await use("127.0.0.53")
      for (const hook of ["input", "forward"]) {
        await host.run("nft add table inet site")
        await host.run(
          `nft add chain inet site ${hook} { type filter hook ${hook} priority 5; ${policy} }`,
        )
        await host.run(`nft add rule inet site ${hook} ip saddr 10.9.9.9 accept`)
        if (last !== "") await host.run(`nft add rule inet site ${hook} ${last}`)
      }
      await nothingWorks()
      await allWorks()
      const opened = await rules()
      await allWorks()
      expect(opened.match(new RegExp(world.installation, "g"))).toHaveLength(3)
      await host.call("detach", sandbox.id)
      expect(await rules()).not.toContain(world.installation)
      expect(await rules()).toContain("10.9.9.9")
      await host.run("nft flush ruleset")
      await host.call("attach", { sandbox: sandbox.id, pid: sandbox.pid })
    })
  })
})
