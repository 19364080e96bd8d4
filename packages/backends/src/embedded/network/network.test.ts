import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { newId } from "@berth/protocol/ids"
import { requires } from "@berth/testing/requires"
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest"
import { removeTools, replaceTool } from "./testing/tools.ts"
import { makeWorld, PORT, type Sandbox, type World } from "./testing/world.ts"

const INTERNET = { address: "198.51.100.10", port: PORT }

requires("root", "networkNamespaces").describe("the sandboxes' network", () => {
  let world: World
  let nothing: string
  const host = () => world.host
  const detachAll = async () => {
    for (const sandbox of await host().call("list")) await host().call("detach", sandbox)
  }

  beforeAll(async () => {
    world = await makeWorld()
    // The devices of this world have settled, so that only tests make a difference from here on.
    nothing = await world.remains()
  })
  afterAll(() => world.end())
  // Registered first, so that it runs last: after a test has taken back what it did to the host.
  beforeEach(() =>
    onTestFinished(async () => {
      await detachAll()
      if ((await host().run("nft list tables")).includes(world.names.table)) await world.dropTable()
      expect(await world.remains()).toBe(nothing)
    }),
  )

  const attach = async (sandbox: Sandbox, allow: string[] = []) => {
    await host().call("attach", { sandbox: sandbox.id, pid: sandbox.pid, allow })
    return sandbox
  }

  describe("as a whole", () => {
    it("[R1.11] is made once for callers at the same time", async () => {
      const nft = await replaceTool(host(), "nft", 'exec $REAL "$@"')
      await host().call("ensureTogether", 10)
      expect((await nft.calls()).filter((call) => call === "-f -")).toHaveLength(1)
      expect(await host().run(`nft list table inet ${world.names.table}`)).toContain("masquerade")
    })

    it("[R1.11] is left alone when it stands, and made again when it has gone", async () => {
      await host().call("ensure")
      const nft = await replaceTool(host(), "nft", 'exec $REAL "$@"')
      await host().call("ensure")
      expect(await nft.calls()).not.toContain("-f -")
      await world.dropTable()
      await host().call("ensure")
      expect(await nft.calls()).toContain("-f -")
    })

    it("turns the host into a router", async () => {
      await host().run("sysctl -q net.ipv4.ip_forward=0")
      await host().call("ensure")
      expect(await host().run("sysctl -n net.ipv4.ip_forward")).toBe("1\n")
    })

    it("[R1.12] is refused where the host has a route into the sandboxes' addresses", async () => {
      await host().ip("route add 198.18.5.0/24 dev up0")
      onTestFinished(() => host().ip("route delete 198.18.5.0/24 dev up0"))
      await expect(host().call("ensure")).rejects.toMatchObject({
        code: "backend.network_conflict",
        details: { route: "198.18.5.0/24 dev up0" },
      })
    })

    it("accepts the two halves of a VPN's default route", async () => {
      const halves = ["0.0.0.0/1", "128.0.0.0/1"]
      for (const half of halves) await host().ip(`route add ${half} via 192.0.2.1`)
      onTestFinished(() => host().ip(...halves.map((half) => `route delete ${half}`)))
      await host().call("ensure")
    })

    it("[R1.14] names the tool that is missing", async () => {
      await removeTools(host())
      await expect(host().call("ensure")).rejects.toMatchObject({
        code: "backend.unavailable",
        details: { tool: "nft", package: "nftables" },
      })
    })

    it("[R1.14] reports the own words of a tool that fails", async () => {
      await replaceTool(host(), "nft", "echo Operation not permitted >&2; exit 1")
      await expect(host().call("ensure")).rejects.toMatchObject({
        code: "backend.engine_failed",
        details: { engineSaid: "Operation not permitted" },
      })
    })
  })

  describe("addresses", () => {
    it("are distinct for 300 sandboxes, and stay with them over a restart", async () => {
      const sandboxes = Array.from({ length: 300 }, () => newId.sandbox())
      const addresses = await host().call("reserveMany", sandboxes)
      expect(new Set(addresses).size).toBe(300)
      const next = await world.server()
      expect(await next.call("reserveMany", sandboxes)).toEqual(addresses)
      expect((await next.call("list")).toSorted()).toEqual(sandboxes.toSorted())
      await next.kill()
    })

    it("run out with a typed error, and are free again after a detach", async () => {
      const directory = await mkdtemp(join(tmpdir(), "berth-network-"))
      onTestFinished(() => rm(directory, { recursive: true }))
      const small = await world.server({
        installation: newId.installation(),
        directory,
        pool: "198.18.0.0/30",
      })
      const first = newId.sandbox()
      expect(await small.call("reserve", first)).toMatchObject({
        address: "198.18.0.2",
        gateway: "198.18.0.1",
      })
      await expect(small.call("reserve", newId.sandbox())).rejects.toMatchObject({
        code: "backend.network_exhausted",
      })
      await small.call("detach", first)
      await small.call("reserve", newId.sandbox())
      await small.kill()
    })

    it("are never those of another installation's links", async () => {
      const directory = await mkdtemp(join(tmpdir(), "berth-network-"))
      onTestFinished(() => rm(directory, { recursive: true }))
      const installation = newId.installation()
      const other = await world.server({ installation, directory, pool: "198.18.0.0/29" })
      const mine = await world.server({ ...world, pool: "198.18.0.0/29" })
      const theirs = await Promise.all([1, 2, 3].map(() => world.sandbox()))
      for (const { id, pid } of theirs) await other.call("attach", { sandbox: id, pid })
      const taken = await Promise.all(theirs.map(({ id }) => other.call("reserve", id)))
      const free = await mine.call("reserveMany", [newId.sandbox(), newId.sandbox()])
      expect(new Set([...taken.map(({ address }) => address), ...free]).size).toBe(5)
      for (const { id } of theirs) await other.call("detach", id)
      await Promise.all([other.kill(), mine.kill()])
    })
  })

  describe("attach", () => {
    it("needs no ensure before it", async () => {
      const sandbox = await attach(await world.sandbox())
      await host().call("ensure")
      expect(await sandbox.call("dial", INTERNET)).toContain("outside")
    })

    it("may be repeated, and then allows the ranges of the last call", async () => {
      await host().call("ensure")
      const sandbox = await attach(await world.sandbox(), ["10.0.0.0/8", "172.16.0.0/12"])
      await attach(sandbox, ["172.16.0.0/12"])
      expect(await sandbox.call("dial", { address: "172.20.0.5", port: PORT })).toContain("outside")
      expect(await sandbox.call("dial", { address: "10.77.0.5", port: PORT })).toBe("ECONNREFUSED")
      expect(await sandbox.call("dial", INTERNET)).toContain("outside")
    })

    it("takes ranges that overlap", async () => {
      await host().call("ensure")
      const sandbox = await world.sandbox()
      const allow = ["10.0.0.0/8", "10.77.0.0/16", "10.77.0.5/32", "11.0.0.0/8", "0.0.0.0/0"]
      await attach(sandbox, allow)
      expect(await sandbox.call("dial", { address: "169.254.169.254", port: PORT })).toContain(
        "outside",
      )
      expect(await sandbox.call("dial", { address: "192.0.2.2", port: PORT })).toBe("ECONNREFUSED")
    })

    it("of six sandboxes at once shares the firewall's transactions, and fences each", async () => {
      await host().call("ensure")
      const sandboxes = await Promise.all(Array.from({ length: 6 }, () => world.sandbox()))
      const nft = await replaceTool(host(), "nft", 'exec $REAL "$@"')
      await Promise.all(sandboxes.map((sandbox) => attach(sandbox)))
      expect((await nft.calls()).length).toBeLessThan(6)
      for (const sandbox of sandboxes) {
        expect(await sandbox.call("dial", INTERNET)).toContain("outside")
        expect(await sandbox.call("dial", { address: "10.77.0.5", port: PORT })).toBe(
          "ECONNREFUSED",
        )
      }
      await Promise.all(sandboxes.map(({ id }) => host().call("detach", id)))
    })

    it("refuses a process in the host's own network, and leaves that network as it is", async () => {
      await host().call("ensure")
      const sandbox = newId.sandbox()
      await host().call("reserve", sandbox)
      const devices = await host().run("ip address")
      await expect(host().call("attach", { sandbox, pid: host().pid })).rejects.toMatchObject({
        code: "backend.engine_failed",
        details: { pid: host().pid },
      })
      expect(await host().run("ip address")).toBe(devices)
    })

    it("of a process that has ended fails with a typed error", async () => {
      const sandbox = await world.sandbox()
      await sandbox.kill()
      await expect(attach(sandbox)).rejects.toMatchObject({ code: "backend.engine_failed" })
    })

    it("that cannot have its address names the device that has it", async () => {
      const sandbox = await world.sandbox()
      const { address } = await host().call("reserve", sandbox.id)
      await host().ip(`route add ${address}/32 dev up0`)
      onTestFinished(() => host().ip(`route delete ${address}/32 dev up0`))
      await expect(attach(sandbox)).rejects.toMatchObject({
        code: "backend.network_conflict",
        details: { route: `${address}/32 dev up0` },
      })
      await host().call("detach", sandbox.id)
    })
  })

  describe("detach", () => {
    it("leaves no device, rule, element or file, and may be repeated", async () => {
      const sandbox = await attach(await world.sandbox(), ["10.0.0.0/8"])
      await host().call("detach", sandbox.id)
      expect(await world.remains()).toBe(nothing)
      await host().call("detach", sandbox.id)
      expect(await world.remains()).toBe(nothing)
    })

    it("leaves the devices and rules of another sandbox as they were", async () => {
      const staying = await attach(await world.sandbox(), ["10.77.0.0/16"])
      const alone = await world.remains()
      const leaving = await attach(await world.sandbox(), ["10.77.0.0/16"])
      await host().call("detach", leaving.id)
      expect(await world.remains()).toBe(alone)
      expect(await staying.call("dial", { address: "10.77.0.5", port: PORT })).toContain("outside")
    })

    it("works after the sandbox has ended, and after the firewall was flushed", async () => {
      const sandbox = await attach(await world.sandbox())
      const other = await attach(await world.sandbox())
      await host().run("nft flush ruleset")
      await sandbox.kill()
      await host().call("detach", sandbox.id)
      // `ensure` puts back the fence of the other sandbox.
      await host().call("ensure")
      expect(await other.call("dial", { address: "10.77.0.5", port: PORT })).toBe("ECONNREFUSED")
    })

    it("does not touch the veth of another sandbox whose device has the same name", async () => {
      const sandbox = await attach(await world.sandbox())
      const twin = `sb-000000000000${sandbox.id.slice(-8)}`
      await expect(host().call("reserve", twin)).rejects.toMatchObject({
        code: "backend.network_conflict",
        details: { holder: sandbox.id },
      })
      await host().call("detach", twin)
      expect(await sandbox.call("dial", INTERNET)).toContain("outside")
    })
  })

  describe("an attach that fails half-way", () => {
    const faults: [string, string, string][] = [
      ["before its devices are made", "ip", "exit 1"],
      ["between its devices and their addresses", "ip", "head -n 1 | $REAL -batch -; exit 1"],
      ["before the sandbox's end is set up", "nsenter", "exit 1"],
      ["at the firewall", "nft", "exit 1"],
    ]
    it.each(faults)("%s leaves nothing once detached", async (_, tool, script) => {
      await host().call("ensure")
      const sandbox = await world.sandbox()
      await replaceTool(host(), tool, script)
      await expect(attach(sandbox, ["10.0.0.0/8"])).rejects.toMatchObject({
        code: "backend.engine_failed",
      })
      await host().call("path", "/usr/sbin:/usr/bin:/sbin:/bin")
      await host().call("detach", sandbox.id)
      expect(await world.remains()).toBe(nothing)
    })

    it("because it was cancelled, leaves nothing once detached", async () => {
      await host().call("ensure")
      const sandbox = await world.sandbox()
      for (const abortAfterMs of [0, 4, 8, 12, 16]) {
        const attachment = { sandbox: sandbox.id, pid: sandbox.pid, abortAfterMs }
        await host()
          .call("attach", attachment)
          .catch(() => {})
        await host().call("detach", sandbox.id)
        expect(await world.remains()).toBe(nothing)
      }
    })

    it.each(["ip", "nsenter", "nft"])(
      "because the server was killed while %s ran, is found and removed by the next server",
      async (tool) => {
        await host().call("ensure")
        const sandbox = await world.sandbox()
        const server = await world.server()
        const directory = await mkdtemp(join(tmpdir(), "berth-marker-"))
        onTestFinished(() => rm(directory, { recursive: true }))
        const fifo = join(directory, "reached")
        await host().run(`mkfifo ${fifo}`)
        await replaceTool(server, tool, `echo $$ > ${fifo}; exec sleep 1000`)
        const attempt = server.call("attach", { sandbox: sandbox.id, pid: sandbox.pid })
        const failed = expect(attempt).rejects.toThrow("ended")
        const orphan = Number(await host().run(`cat ${fifo}`))
        onTestFinished(() => void process.kill(orphan))
        await server.kill()
        await failed
        const next = await world.server()
        expect(await next.call("list")).toEqual([sandbox.id])
        await next.call("detach", sandbox.id)
        expect(await world.remains()).toBe(nothing)
        await next.kill()
      },
    )
  })

  it("survives a reservation that a power loss has damaged", async () => {
    const sandbox = await attach(await world.sandbox())
    const reservation = join(world.directory, "devices", sandbox.device)
    await writeFile(reservation, "")
    // No policy of the kernel's outlives a power loss.
    await world.dropBarriers()
    expect(await host().call("list")).toEqual([])
    await host().call("detach", sandbox.id)
    await host().call("reserve", sandbox.id)
  })
})
