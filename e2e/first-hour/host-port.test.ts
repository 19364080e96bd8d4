import { createHash } from "node:crypto"
import { once } from "node:events"
import { mkdtempSync, rmSync } from "node:fs"
import { createServer, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { buffer } from "node:stream/consumers"
import { SandboxList } from "@berth/protocol/sandboxes"
import { requires } from "@berth/testing/requires"
import { sampled, sized } from "@berth/testing/sampled"
import { afterAll, afterEach, beforeAll, expect, it, vi } from "vitest"
import { startEngine, useSharedEngine } from "../docker/engine.ts"
import { openServer } from "../sandboxes/server.ts"
import { behindProxy } from "./behind-proxy.ts"
import { type Company, npmFiles, openCompany } from "./company.ts"
import type { Case } from "./journey.ts"

/** Covers the making of a toolbox, and boots beside other tests. */
const STAGE_DEADLINE_MS = 180_000

const MIB = 1024 * 1024
/** More bytes than the buffers on the way hold. */
const LARGE_BYTES = MIB * sized("MiB to and from a port of the host", { few: 8, all: 32 })
const LARGE = Buffer.alloc(LARGE_BYTES, "0123456789abcdef")
const DIGEST = createHash("sha256").update(LARGE).digest("hex")

const answerTo = (url: string | undefined, body: Buffer): string | Buffer => {
  if (url === "/large") return LARGE
  return body.length === 0 ? "the host" : createHash("sha256").update(body).digest("hex")
}

/** Starts a server on the host's loopback alone, as a model's server may be. */
const listenOnHost = async (port = 0): Promise<Server> => {
  const server = createServer((request, response) => {
    void buffer(request).then((body) => response.end(answerTo(request.url, body)))
  })
  server.listen(port, "127.0.0.1")
  await once(server, "listening")
  return server
}
const portOf = (server: Server) => (server.address() as AddressInfo).port
const close = async (server: Server): Promise<void> => {
  const closed = once(server, "close")
  server.close()
  server.closeAllConnections()
  await closed
}

const FETCH = `
const [url, bytes] = process.argv.slice(1)
const body = bytes && Buffer.alloc(Number(bytes), "0123456789abcdef")
const response = await fetch(url, { method: body ? "POST" : "GET", body })
const got = Buffer.from(await response.arrayBuffer())
const { createHash } = await import("node:crypto")
console.log(got.length > 100 ? createHash("sha256").update(got).digest("hex") : String(got))`

/** A shell command that succeeds if something answers at the port. */
const connectTo = (port: number): string =>
  `/opt/berth/bin/node -e 'fetch("http://127.0.0.1:${port}").catch(() => process.exit(1))'`

type Stage = Awaited<ReturnType<typeof openServer>>

type Choose = (all: readonly Case[]) => readonly Case[]

/** Adds the journeys on one backend, and `further` ones. With the network `open`, the server's host is in a company. */
const suite = (
  network: "none" | "open",
  choose: Choose,
  open: () => Promise<{ stage: Stage; close: () => Promise<void> }>,
  further: readonly Case[] = [],
): void => {
  vi.setConfig({ testTimeout: STAGE_DEADLINE_MS })
  let stage: Stage
  let closeStage = async () => {}
  let host: Server
  let other: Server
  beforeAll(async () => {
    host = await listenOnHost()
    other = await listenOnHost()
    const opened = await open()
    stage = opened.stage
    closeStage = opened.close
  }, STAGE_DEADLINE_MS)
  afterAll(async () => {
    await closeStage()
    await close(host)
    await close(other)
  }, STAGE_DEADLINE_MS)
  afterEach(async () => {
    await stage.berth(["rm", "model", "--force"])
  })

  const berth = async (...args: string[]) => {
    const { stdout, ...rest } = await stage.berth(args)
    return { ...rest, stdout: stdout.toString() }
  }
  const up = async () => {
    const flags = ["--network", network, "--host-port", String(portOf(host))]
    const made = await berth("up", "--name", "model", ...flags)
    expect(made, made.stderr).toMatchObject({ status: 0 })
    // The company's authority is not installed yet. Without a network, no warning says so.
    expect(/^warning: .* NODE_EXTRA_CA_CERTS/m.test(made.stderr)).toBe(network === "open")
  }
  const fetchInside = (port: number, path = "/", ...more: string[]) => {
    const node = ["/opt/berth/bin/node", "--input-type=module", "-e", FETCH]
    return berth("exec", "model", "--", ...node, `http://127.0.0.1:${port}${path}`, ...more)
  }

  const cases: readonly Case[] = [
    {
      title:
        "reaches a server on the host's loopback, with large bodies both ways, and no port that was not named",
      work: async () => {
        await up()
        expect(await fetchInside(portOf(host))).toMatchObject({ stdout: "the host\n", status: 0 })
        expect((await fetchInside(portOf(host), "/large")).stdout).toBe(`${DIGEST}\n`)
        expect((await fetchInside(portOf(host), "/", String(LARGE_BYTES))).stdout).toBe(
          `${DIGEST}\n`,
        )
        const refused = await fetchInside(portOf(other))
        expect(refused.status).not.toBe(0)
        expect(refused.stderr).toContain("ECONNREFUSED")
        const { sandboxes } = SandboxList.parse(JSON.parse((await berth("ps", "--json")).stdout))
        expect(sandboxes.map(({ hostPorts }) => hostPorts)).toEqual([[portOf(host)]])
      },
    },
    {
      title:
        "is refused with one warning while nothing listens on the host, and works again afterwards, also after the server was killed",
      work: async () => {
        await up()
        const port = portOf(host)
        await close(host)
        const warnings: string[] = []
        const session = await stage.client().sessions.create({ workspace: "model" })
        const twice = `for n in 1 2; do ! ${connectTo(port)} || exit 1; done`
        const { state } = await session.run(twice, {
          onEvent: ({ body }) => void (body.type === "warning" && warnings.push(body.message)),
        })
        expect(state).toBe("succeeded")
        const why = `nothing takes connections on 127.0.0.1:${port} of the host: ECONNREFUSED`
        expect(warnings).toEqual([`port ${port} of the host is not reached: ${why}`])
        host = await listenOnHost(port)
        expect((await fetchInside(port)).stdout).toBe("the host\n")
        await stage.kill()
        await stage.restart()
        expect((await fetchInside(port)).stdout).toBe("the host\n")
      },
    },
    {
      title: "refuses the server's own port, and leaves no sandbox and no workspace behind",
      work: async () => {
        const { port } = new URL(stage.access().url)
        const refused = await berth("up", "--name", "model", "--host-port", port)
        expect(refused.status).not.toBe(0)
        expect(refused.stderr).toContain(`port ${port} of the host is where this server listens`)
        expect(JSON.parse((await berth("ps", "--json")).stdout)).toEqual({ sandboxes: [] })
        await expect(stage.client().workspaces.get("model")).rejects.toMatchObject({
          code: "not_found",
        })
      },
    },
  ]
  for (const { title, work } of choose([...cases, ...further])) it(title, work)
}

/** Adds the journeys on a host that reaches the world through a company's proxy, with those behind the proxy. */
const suiteInCompany = (
  network: "none" | "open",
  choose: Choose,
  open: (variables: Company["variables"]) => Promise<{ stage: Stage; close: () => Promise<void> }>,
): void => {
  let company: Company
  let server: Stage
  const openBoth = async () => {
    company = await openCompany()
    const { stage, close } = await open(company.variables)
    server = stage
    const closeBoth = async () => {
      await close()
      await company.close()
    }
    return { stage, close: closeBoth }
  }
  suite(
    network,
    choose,
    openBoth,
    behindProxy(() => ({ server, company })),
  )
}

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces", "networkNamespaces").describe(
  "--host-port without a network, and a company's proxy, embedded",
  () =>
    suiteInCompany(
      "none",
      (all) => all,
      async (variables) => {
        const stage = await openServer([], tmpdir(), variables)
        return { stage, close: stage.close }
      },
    ),
)

const chooseOne: Choose = (all) => sampled("host ports and proxies, docker", all, 1)

const onDocker = () =>
  requires("root", "docker", "tini").describe("--host-port without a network, on Docker", () =>
    suite("none", chooseOne, async () => {
      const stage = await openServer((await useSharedEngine()).flags)
      return { stage, close: stage.close }
    }),
  )

const elsewhere = () =>
  requires("root", "docker", "tini", "networkNamespaces").describe(
    "--host-port, and a company's proxy, on an engine elsewhere",
    () =>
      suiteInCompany("open", chooseOne, async (variables) => {
        const hidden = mkdtempSync(join(tmpdir(), "berth-unseen-"))
        const engine = await startEngine({ networks: true, hidden, files: await npmFiles() })
        const stage = await openServer(engine.flags, hidden, variables)
        const close = async () => {
          await stage.close()
          await engine.stop()
          rmSync(hidden, { recursive: true, force: true })
        }
        return { stage, close }
      }),
  )

for (const describeOn of sampled("engines that give host ports", [onDocker, elsewhere], 1))
  describeOn()
