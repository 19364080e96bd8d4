import { once } from "node:events"
import { type AddressInfo, createServer, type Server } from "node:net"
import { networkInterfaces } from "node:os"
import { run } from "@berth/host/run"
import type { SandboxId } from "@berth/protocol/ids"
import { DOCKER_ADDRESS_POOL } from "@berth/testing/docker/engine"
import { requires } from "@berth/testing/requires"
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest"
import type { Backend } from "../../backend.ts"
import { connectionsTableOf } from "../../connections/rules.ts"
import { type FaultyEngine, startFaultyEngine } from "../testing/faulty-engine.ts"
import { askEngine, type DockerHarness, openHarness } from "../testing/harness.ts"
import { specFor } from "../testing/spec.ts"
import { GATEWAY_TABLE, RESOLVER_BOUNDS } from "./gateway.ts"
import { type NetworkNames, networkNames } from "./names.ts"

/** How many addresses of a subnet SWEEP sends to, along the routes and again around them. */
const SWEPT = 20
const SWEEP = `
  for my $last (200 .. ${200 + SWEPT - 1}, 220 .. ${220 + SWEPT - 1}) {
    socket(my $socket, PF_INET, SOCK_DGRAM, 17) or die;
    if ($last >= 220) {
      my $SO_BINDTODEVICE = 25;
      setsockopt($socket, SOL_SOCKET, $SO_BINDTODEVICE, "eth0") or die;
      setsockopt($socket, SOL_SOCKET, SO_DONTROUTE, pack("i", 1)) or die;
    }
    send($socket, "x", 0, pack_sockaddr_in(9, inet_aton("$ARGV[0].$last")));
  }`

/**
 * How many connections FLOOD opens on the loopback in each of three ways: between addresses of its own, from the
 * address of the engine's name server, and to it.
 */
const FLOODED = 6_000
const FLOOD = `
  for my $from ("127.0.0.1", "127.0.0.11") {
    socket(my $own, PF_INET, SOCK_DGRAM, 17) or die;
    bind($own, pack_sockaddr_in(0, inet_aton($from))) or die;
    send($own, "x", 0, pack_sockaddr_in($_, inet_aton("127.0.0.2"))) for 1 .. ${FLOODED};
  }
  for my $port (1 .. ${FLOODED}) {
    socket(my $asking, PF_INET, SOCK_DGRAM, 17) or die;
    bind($asking, pack_sockaddr_in(20_000 + $port, inet_aton("127.0.0.3"))) or die;
    send($asking, "x", 0, pack_sockaddr_in(53, inet_aton("127.0.0.11")));
  }
`
/** Asks the engine's name server for a name, and then holds as many connections to it as it can. */
const ASK = `
  my $server = pack_sockaddr_in(53, inet_aton("127.0.0.11"));
  my $question = pack("n6", 7, 0x100, 1, 0, 0, 0) . pack("C/a* x n2", $ARGV[0], 1, 1);
  socket(my $asking, PF_INET, SOCK_DGRAM, 17) or die;
  send($asking, $question, 0, $server);
  alarm 10;
  recv($asking, my $answer, 512, 0);
  print "answers: ", unpack("x6 n", $answer), "\n";
  my @held;
  while (@held < 1_000) {
    socket(my $stream, PF_INET, SOCK_STREAM, 6) or die;
    connect($stream, $server) or last;
    push @held, $stream;
  }
  print "held: ", scalar(@held), "\n";
`

const UNPRIVILEGED = ["setpriv", "--reuid=1000", "--clear-groups", "--bounding-set=-all"]

const NETWORK = { kind: "open" as const, allow: [] }

requires("docker").describe("the network of docker sandboxes", () => {
  let harness: DockerHarness
  let between: FaultyEngine
  let backend: Backend
  let names: NetworkNames

  beforeAll(async () => {
    harness = await openHarness({ networks: true })
    names = networkNames(harness.installation)
    between = await startFaultyEngine(harness.engine.socket)
  }, 120_000)
  /** Each test has a backend that remembers nothing. */
  const open = async () => {
    backend = await harness.openThrough(between.address)
  }
  const removeNetworks = async () => {
    const { body } = await askEngine(harness.engine, "GET", "/networks")
    for (const { Name, Id } of body as { Name: string; Id: string }[]) {
      if (Name.startsWith("berth-")) await askEngine(harness.engine, "DELETE", `/networks/${Id}`)
    }
  }
  const nft = (...args: string[]) => run(["nft", ...args], { signal: AbortSignal.timeout(5_000) })
  const tables = async () => {
    const { stdout } = await nft("list", "tables")
    return [...stdout.matchAll(/^table inet (\S+)$/gm)]
      .map(([, name = ""]) => name)
      .filter((name) => name.startsWith(names.table))
      .toSorted()
  }
  const dropFence = (table = names.table) => nft("delete", "table", "inet", table)
  afterEach(async () => {
    between.fail(/./, undefined)
    for (const { identity } of await harness.backend.list()) {
      await harness.backend.remove(identity.sandbox)
    }
    await removeNetworks()
    for (const table of await tables()) await dropFence(table)
  })
  afterAll(async () => {
    await harness?.close()
    await between?.close()
  }, 60_000)

  const boot = async (script: string): Promise<SandboxId> => {
    const spec = specFor(harness, { network: NETWORK, command: ["/bin/bash", "-c", script] })
    await backend.create(spec)
    await backend.start(spec.identity.sandbox)
    return spec.identity.sandbox
  }
  const asks = () => between.asked.filter((line) => line.includes("/networks")).length
  const make = (body: object) => askEngine(harness.engine, "POST", "/networks/create", body)

  it("[R1.11] is made once for 20 callers at the same time, and then not asked for again", async () => {
    await open()
    const before = asks()
    await Promise.all(Array.from({ length: 20 }, () => backend.ensureNetwork()))
    const made = between.asked.slice().filter((line) => line.includes("/networks/create"))
    expect(made).toHaveLength(1)
    const after = asks()
    expect(after).toBeGreaterThan(before)
    await Promise.all(Array.from({ length: 20 }, () => backend.ensureNetwork()))
    expect(asks()).toBe(after)
    const { body } = await askEngine(harness.engine, "GET", `/networks/${names.network}`)
    expect(body).toMatchObject({
      Driver: "bridge",
      Options: { "com.docker.network.bridge.enable_icc": "false" },
    })
  })

  it("[R1.11] is made again when it vanished after a sandbox was created on it", async () => {
    await open()
    const spec = specFor(harness, { network: NETWORK })
    await backend.create(spec)
    await removeNetworks()
    await backend.start(spec.identity.sandbox)
    expect(await backend.inspect(spec.identity.sandbox)).toMatchObject({ state: "running" })
  })

  it("[R1.11] is tried again after an attempt that failed", async () => {
    await open()
    between.fail(/networks\/create/, "500")
    await expect(backend.ensureNetwork()).rejects.toMatchObject({ code: "backend.engine_failed" })
    between.fail(/./, undefined)
    await backend.ensureNetwork()
  })

  it("[R1.12] is not made twice when the engine's answer got lost", async () => {
    await open()
    between.fail(/networks\/create/, "lost")
    await expect(backend.ensureNetwork()).rejects.toMatchObject({ code: "backend.engine_failed" })
    between.fail(/./, undefined)
    await backend.ensureNetwork()
    const { body } = await askEngine(harness.engine, "GET", "/networks")
    const same = (body as { Name: string }[]).filter(({ Name }) => Name === names.network)
    expect(same).toHaveLength(1)
  })

  describe("of the wrong kind", () => {
    const right = () => ({
      Name: names.network,
      Labels: { "berth.installation": harness.installation },
      Options: {
        "com.docker.network.bridge.name": names.device,
        "com.docker.network.bridge.enable_icc": "false",
      },
    })
    /** Only its existence matters: nothing is ever on that network. */
    const aDevice = () => Object.keys(networkInterfaces()).find((it) => it !== "lo") ?? ""
    const wrong: Record<string, () => [object, RegExp]> = {
      "someone else's": () => [{ ...right(), Labels: {} }, /labels/],
      "with neighbours that reach each other": () => [{ ...right(), Options: {} }, /option/],
      internal: () => [{ ...right(), Internal: true }, /internal/],
      "of another driver": () => [
        { ...right(), Driver: "macvlan", Options: { parent: aDevice() } },
        /macvlan/,
      ],
    }
    it.each(Object.entries(wrong))("[R1.12] carries no sandbox: %s", async (_, given) => {
      const [body, why] = given()
      expect(await make(body)).toMatchObject({ status: 201 })
      await open()
      const spec = specFor(harness, { network: NETWORK })
      await expect(backend.create(spec)).rejects.toMatchObject({
        code: "backend.network_wrong",
        details: { why: expect.stringMatching(why) },
      })
      expect(await backend.list()).toEqual([])
    })

    it("[R1.12] carries no sandbox: two of one name", async () => {
      await make(right())
      await make({ Name: names.network })
      await open()
      await expect(backend.ensureNetwork()).rejects.toMatchObject({
        code: "backend.network_wrong",
        details: { why: expect.stringContaining("2 of this name") },
      })
    })
  })

  it("[R1.12] is refused while the engine has no free addresses, and made once it has", async () => {
    const hog = { Name: "berth-hog", IPAM: { Config: [{ Subnet: DOCKER_ADDRESS_POOL }] } }
    expect(await make(hog)).toMatchObject({ status: 201 })
    await open()
    const spec = specFor(harness, { network: NETWORK })
    await expect(backend.create(spec)).rejects.toMatchObject({
      code: "backend.network_exhausted",
      details: { engineSaid: expect.stringContaining("address pool") },
    })
    expect(await harness.census()).toMatchObject({ containers: 0, sandboxes: 0 })
    await removeNetworks()
    await backend.create(spec)
  })

  describe("the fence", () => {
    let server: Server
    let port: number
    beforeAll(async () => {
      server = createServer((socket) => socket.end("the host hears\n")).listen(0, "0.0.0.0")
      await once(server, "listening")
      port = (server.address() as AddressInfo).port
    })
    afterAll(() => server.close())

    /** The gateway is the host's own address on the bridge. */
    const knock = (at: string, to: number) =>
      `while :; do (exec 3<>/dev/tcp/${at}/${to} && head -1 <&3) 2>&1; sleep 0.1; done`
    const gatewayOf = async () => {
      const { body } = await askEngine(harness.engine, "GET", `/networks/${names.network}`)
      return (body as { IPAM: { Config: { Gateway: string }[] } }).IPAM.Config[0]?.Gateway ?? ""
    }

    /** Runs programs of the host in a sandbox's network. */
    const insideOf = async (sandbox: SandboxId) => {
      const { body } = await askEngine(harness.engine, "GET", `/containers/berth-${sandbox}/json`)
      const { Pid } = (body as { State: { Pid: number } }).State
      return async (...command: string[]) => {
        const signal = AbortSignal.timeout(20_000)
        return (await run(["nsenter", `--net=/proc/${Pid}/ns/net`, ...command], { signal })).stdout
      }
    }

    it("[R1.11] keeps sandboxes from the host's services by rules inside while the host's rules are flushed", async () => {
      await open()
      await backend.ensureNetwork()
      const sandbox = await boot(knock(await gatewayOf(), port))
      const inside = await insideOf(sandbox)
      const said = () => backend.logs(sandbox)
      const refusals = async () => (await said()).split("Connection refused").length
      await expect.poll(said, { timeout: 10_000 }).toContain("Connection refused")
      await dropFence()
      const before = await refusals()
      await expect.poll(refusals, { timeout: 10_000 }).toBeGreaterThan(before + 3)
      expect(await said()).not.toContain("the host hears")
      await inside("nft", "delete", "table", "inet", GATEWAY_TABLE)
      await expect.poll(said, { timeout: 10_000 }).toContain("the host hears")
    })

    it("[R1.11] is put back after it was flushed, at the server's start and while the server runs", async () => {
      await open()
      await boot("sleep 1000")
      await dropFence()
      await dropFence(connectionsTableOf(names.table))
      const whole = [names.table, connectionsTableOf(names.table)]
      await open()
      await backend.repair()
      expect(await tables()).toEqual(whole)
      await dropFence()
      await expect.poll(tables, { timeout: 10_000 }).toEqual(whole)
      await backend.close()
    })

    it("bounds the connections that the kernel tracks inside a sandbox, and names still resolve", async () => {
      await open()
      const sandbox = await boot("sleep 1000")
      const inside = await insideOf(sandbox)
      const tracked = async () =>
        Number(await inside("cat", "/proc/sys/net/netfilter/nf_conntrack_count"))
      const asked = () => inside(...UNPRIVILEGED, "perl", "-MSocket", "-e", ASK, `berth-${sandbox}`)
      expect(await asked()).toBe(`answers: 1\nheld: ${RESOLVER_BOUNDS.tcp}\n`)
      await inside(...UNPRIVILEGED, "perl", "-MSocket", "-e", FLOOD)
      expect(await tracked()).toBeLessThanOrEqual(RESOLVER_BOUNDS.udp + RESOLVER_BOUNDS.tcp)
      await inside("nft", "delete", "table", "inet", GATEWAY_TABLE)
      await inside(...UNPRIVILEGED, "perl", "-MSocket", "-e", FLOOD)
      expect(await tracked()).toBeGreaterThan(FLOODED)
    })

    it("keeps sandboxes from filling the kernel's neighbour table with addresses of their bridge", async () => {
      await open()
      await backend.ensureNetwork()
      const subnet = (await gatewayOf()).replace(/\.\d+$/, "")
      const sandbox = await boot("sleep 1000")
      const inside = await insideOf(sandbox)
      const entries = async () => {
        const all = await inside("ip", "neighbour", "show", "nud", "all", "dev", "eth0")
        return all.split("\n").filter((line) => line.startsWith(`${subnet}.`)).length
      }
      const sweep = () => inside(...UNPRIVILEGED, "perl", "-MSocket", "-e", SWEEP, subnet)
      await sweep()
      expect(await entries()).toBeLessThanOrEqual(1)
      await inside("nft", "delete", "table", "inet", GATEWAY_TABLE)
      await sweep()
      expect(await entries()).toBeGreaterThan(SWEPT)
    })

    it("keeps sandboxes from each other", async () => {
      await open()
      const listen =
        'perl -MIO::Socket::INET -e \'$s = IO::Socket::INET->new(Listen => 5, LocalPort => 7777, ReuseAddr => 1); $| = 1; open(H, "/etc/hosts"); print grep { /sb-/ } <H>; print "listens\\n"; while ($c = $s->accept) { print $c "the neighbour hears\\n"; close $c }\''
      const neighbour = await boot(listen)
      await expect.poll(() => backend.logs(neighbour), { timeout: 10_000 }).toContain("listens")
      const address = /^([\d.]+)\s+sb-/m.exec(await backend.logs(neighbour))?.[1] ?? ""
      const sandbox = await boot(knock(address, 7777))
      const said = () => backend.logs(sandbox)
      await expect.poll(said, { timeout: 15_000 }).toMatch(/refused|unreachable|timed out/i)
      expect(await said()).not.toContain("hears")
    })
  })

  describe("for listed ranges", () => {
    const ours = async () => {
      const { body } = await askEngine(harness.engine, "GET", "/networks")
      const all = (body as { Name: string }[]).map(({ Name }) => Name)
      return all.filter((name) => name.startsWith(names.network))
    }
    const create = async (...allow: string[]) => {
      const spec = specFor(harness, { network: { kind: "open", allow } })
      await backend.create(spec)
      return spec.identity.sandbox
    }

    it("is shared by sandboxes with the same list, and removed with the last of them", async () => {
      await open()
      const first = await create("10.1.0.0/16", "192.168.5.0/24")
      const second = await create("192.168.5.0/24", "10.1.2.3/16")
      const other = await create("10.1.0.0/16")
      expect(await ours()).toHaveLength(2)
      expect(await tables()).toHaveLength(4)
      await backend.remove(first)
      await backend.remove(other)
      expect(await ours()).toHaveLength(1)
      await backend.start(second)
      await backend.remove(second)
      expect(await ours()).toEqual([])
      expect(await tables()).toEqual([])
    })

    it("is removed again when the sandbox cannot be made", async () => {
      await open()
      between.fail(/name=berth-sb-/, "500")
      await expect(create("10.1.0.0/16")).rejects.toMatchObject({ code: "backend.engine_failed" })
      expect([...(await ours()), ...(await tables())]).toEqual([])
    })

    it("[R1.9] is kept for a sandbox that outlives the server, and removed after one that does not", async () => {
      await open()
      const kept = await create("10.1.0.0/16")
      await backend.start(kept)
      await create("10.2.0.0/16")
      for (const { identity } of (await backend.list()).filter((it) => it.state === "created")) {
        const name = `berth-${identity.sandbox}`
        await askEngine(harness.engine, "DELETE", `/containers/${name}?force=1`)
      }
      await open()
      await backend.repair()
      expect(await ours()).toHaveLength(1)
      await backend.remove(kept)
      expect([...(await ours()), ...(await tables())]).toEqual([])
    })
  })
})
