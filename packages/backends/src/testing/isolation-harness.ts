import { randomUUID } from "node:crypto"
import { join } from "node:path"
import type { InstallationId } from "@berth/protocol/ids"
import {
  HOST_ADDRESS,
  INTERNET,
  makeWorld,
  NOT_INTERNET,
  PORT,
  type World,
} from "../embedded/network/testing/world.ts"
import type { IsolationHarness, IsolationNetwork, IsolationOptions } from "./isolation/harness.ts"
import { pidsWith } from "./processes-with.ts"
import { type Server, startServer } from "./server-process.ts"

const HOST_IPV6 = "2001:db8::2"
const LOOPBACK_PORT = PORT + 1

/** The parts that differ between backends. */
export interface Isolated {
  /** The file that serves the backend. */
  readonly file: string
  /** Shell commands that remove every rule between sandboxes and the rest, and restore those that are not Berth's. */
  readonly unfence: (installation: InstallationId) => readonly string[]
  readonly refence?: (installation: InstallationId) => readonly string[]
  /** Removes the rules inside the sandboxes of a host, which is known by a process in its network namespace. */
  readonly unfenceInside?: (hostPid: number) => Promise<void>
}

/**
 * Starts a backend in a process of its own, on a host that is a network namespace: this machine's network is not
 * touched, and the internet is played.
 */
export const openIsolationHarness = async (
  isolated: Isolated,
  options: IsolationOptions,
): Promise<IsolationHarness> => {
  // Steps are undone in the opposite order, whatever fails.
  const undo = new AsyncDisposableStack()
  try {
    const world = await makeWorld()
    undo.defer(() => world.end())
    const { serverSecret: SERVER_SECRET, diskBytes } = options
    const { file } = isolated
    const server = await startServer(world.host, {
      file,
      environment: { SERVER_SECRET },
      diskBytes,
    })
    undo.defer(() => server.end())
    undo.defer(() => server.call("close"))
    return await describeHarness(isolated, world, server, () => undo.disposeAsync())
  } catch (failure) {
    await undo.disposeAsync()
    throw failure
  }
}

const describeHarness = async (
  { unfence, refence, unfenceInside }: Isolated,
  world: World,
  server: Server,
  close: () => Promise<void>,
): Promise<IsolationHarness> => {
  const { installation, directory, system } = await server.call("about")
  const onHost = async (commands: readonly string[] = []) => {
    for (const command of commands) await world.host.run(command)
  }
  const abstract = `isolation-${randomUUID()}`
  await server.call("listen", "server.sock")
  await server.call("listen", `\0${abstract}`)
  return {
    installation,
    directory,
    system,
    backend: {
      describe: () => server.call("describe"),
      create: (spec) => server.call("create", spec),
      start: (sandbox) => server.call("start", sandbox),
      stop: (sandbox, options) => server.call("stop", sandbox, options),
      remove: (sandbox) => server.call("remove", sandbox),
      inspect: (sandbox) => server.call("inspect", sandbox),
      logs: (sandbox) => server.call("logs", sandbox),
    },
    serverSockets: { path: join(directory, "server.sock"), abstract },
    network: await playNetwork(world, {
      dropRules: async () => {
        // The rules inside go first: the sandbox's attempts begin when it hears the host.
        await unfenceInside?.(world.host.pid)
        await onHost(unfence(installation))
      },
      restoreRules: async () => {
        await onHost(refence?.(installation))
        await server.call("ensureNetwork")
      },
    }),
    census: () => server.call("census"),
    processesWith: async (argument) => (await pidsWith(argument)).length,
    close,
  }
}

/**
 * Starts the listeners: on the host, one on all its addresses and one on its loopback alone; the host also has an
 * address of IPv6.
 */
const playNetwork = async (
  { host, outside }: World,
  { dropRules, restoreRules }: Record<"dropRules" | "restoreRules", () => Promise<void>>,
): Promise<IsolationNetwork> => {
  await host.ip(`address add ${HOST_IPV6}/64 dev up0 nodad`)
  await host.call("listen", { port: LOOPBACK_PORT, host: "127.0.0.1", name: "host" })
  await host.call("listen", { port: PORT, host: HOST_IPV6, name: "host" })
  const { "the metadata address": metadata, ...notInternet } = NOT_INTERNET
  return {
    ports: { any: PORT, loopback: LOOPBACK_PORT },
    internet: INTERNET[0] ?? "",
    host: HOST_ADDRESS,
    hostIpv6: HOST_IPV6,
    metadata,
    notInternet,
    dial: (address, port) => host.call("dial", { address, port }),
    tracked: async () => Number(await host.run("sysctl -n net.netfilter.nf_conntrack_count")),
    async packetsUntil(last) {
      const outer = await outside.call("arrived", last)
      await host.call("send", [{ address: HOST_ADDRESS, port: PORT, text: last }])
      const inner = await host.call("arrived", last)
      return [...outer, ...inner].map(({ text }) => text)
    },
    async withoutFence(work) {
      await dropRules()
      try {
        return await work()
      } finally {
        await restoreRules()
      }
    },
  }
}
