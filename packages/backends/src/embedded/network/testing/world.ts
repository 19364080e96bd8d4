import { mkdtemp, readdir, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type InstallationId, newId, type SandboxId } from "@berth/protocol/ids"
import type { ConnectionBounds } from "../../../connections/bounds.ts"
import { namesOf } from "../names.ts"
import { enterNamespace, joining, type Namespace, UNSHARE } from "./namespace.ts"

/** Addresses that `outside` plays, all behind the host's only link: a packet that the rules miss gets there. */
export const INTERNET = ["198.51.100.10", "203.0.113.5"]
export const NOT_INTERNET = {
  "a private network, 10/8": "10.77.0.5",
  "a private network, 172.16/12": "172.20.0.5",
  "a private network, 192.168/16": "192.168.77.5",
  "carrier-grade NAT": "100.64.7.5",
  "the metadata address": "169.254.169.254",
  "another link-local address": "169.254.7.7",
  "protocol assignments": "192.0.0.8",
  "6to4 relays": "192.88.99.1",
  "benchmarks beyond the pool": "198.19.0.5",
  "reserved addresses": "240.0.0.5",
}
export const HOST_ADDRESS = "192.0.2.2"
export const OUTSIDE_ADDRESS = "192.0.2.1"
export const PORT = 7000

export interface World {
  readonly installation: InstallationId
  readonly directory: string
  readonly names: ReturnType<typeof namesOf>
  readonly host: Namespace
  readonly outside: Namespace
  /** Makes a sandbox: a process with a network namespace that its own user namespace owns. */
  sandbox(): Promise<Sandbox>
  /** Starts one more server on this host, by default the next one of the same installation. */
  server(options?: ServerOptions): Promise<Namespace>
  /** Everything that a network could leave on the host, as text. */
  remains(): Promise<string>
  /** Drops the table, as a flush of the firewall does. */
  dropTable(): Promise<void>
  /** Removes the barriers that cut sandboxes off while the fence is away. */
  dropBarriers(): Promise<void>
  end(): Promise<void>
}

export interface ServerOptions {
  readonly installation: InstallationId
  readonly directory: string
  readonly pool?: string
}

export interface Sandbox extends Namespace {
  readonly id: SandboxId
  readonly device: string
}

/** Makes a host with a link to a world outside, in namespaces of their own: this machine's network is not touched. */
export const makeWorld = async ({
  bounds,
}: {
  readonly bounds?: ConnectionBounds
} = {}): Promise<World> => {
  const installation = newId.installation()
  const names = namesOf(installation)
  const directory = await mkdtemp(join(tmpdir(), "berth-network-"))
  const [host, outside] = await Promise.all([
    enterNamespace(UNSHARE.host),
    enterNamespace(UNSHARE.host),
  ])
  const started: Namespace[] = [host, outside]
  await host.ip(
    "link set lo up",
    `link add up0 type veth peer name out0 netns ${outside.pid}`,
    `address add ${HOST_ADDRESS}/24 dev up0`,
    "link set up0 addrgenmode none up",
  )
  await outside.ip(
    "link set lo up",
    `address add ${OUTSIDE_ADDRESS}/24 dev out0`,
    "link set out0 addrgenmode none up",
    `route add 198.18.0.0/16 via ${HOST_ADDRESS}`,
    ...[...INTERNET, ...Object.values(NOT_INTERNET)].map((it) => `address add ${it}/32 dev lo`),
  )
  await host.ip(`route add default via ${OUTSIDE_ADDRESS}`)
  await outside.call("listen", { port: PORT, name: "outside" })
  await host.call("listen", { port: PORT, name: "host" })
  await host.call("create", { installation, directory, ...(bounds && { bounds }) })
  return {
    installation,
    directory,
    names,
    host,
    outside,
    async sandbox() {
      const id = newId.sandbox()
      const namespace = await enterNamespace(UNSHARE.sandbox)
      started.push(namespace)
      return { ...namespace, id, device: names.deviceOf(id) }
    },
    async server({ pool, ...options } = { installation, directory }) {
      const server = await enterNamespace(joining(host))
      started.push(server)
      await server.call("create", {
        installation: options.installation,
        directory: options.directory,
        ...(pool && { pool }),
      })
      return server
    },
    async remains() {
      const parts = ["ip link", "ip address", "ip route", "ip xfrm policy", "nft list ruleset"].map(
        host.run,
      )
      const files = (await readdir(directory, { recursive: true, withFileTypes: true }))
        .filter((entry) => !entry.isDirectory())
        .map(({ name }) => name)
      return [...(await Promise.all(parts)), ...files.toSorted()].join("\n")
    },
    dropTable: async () => {
      await host.run(`nft delete table inet ${names.table}`)
      await host.run(`nft delete table inet ${names.connectionsTable}`)
    },
    dropBarriers: async () => {
      await host.run("ip xfrm policy flush")
    },
    async end() {
      await Promise.all(started.map((namespace) => namespace.kill()))
      await rm(directory, { recursive: true, force: true })
    },
  }
}
