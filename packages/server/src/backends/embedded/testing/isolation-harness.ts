import { spawn } from "node:child_process"
import { randomUUID } from "node:crypto"
import { once } from "node:events"
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import type { InstallationId } from "@berth/protocol/ids"
import { PLAIN_ENV } from "../../../host/run.ts"
import type { IsolationHarness, IsolationNetwork, IsolationOptions } from "../../isolation.ts"
import { namesOf } from "../network/names.ts"
import {
  HOST_ADDRESS,
  INTERNET,
  makeWorld,
  NOT_INTERNET,
  PORT,
  type World,
} from "../network/testing/world.ts"
import type { ServerCalls } from "./server.ts"

const HOST_IPV6 = "2001:db8::2"
const LOOPBACK_PORT = PORT + 1

/**
 * An embedded backend in a process of its own, on a host that is a network namespace: this machine's network is
 * not touched, and what should be the internet is played.
 */
export const openIsolationHarness = async (
  options: IsolationOptions,
): Promise<IsolationHarness> => {
  const world = await makeWorld()
  const server = await startServer(world, options)
  const about = await server.call("about")
  const { directory } = about
  const installation = about.installation as InstallationId
  const abstract = `isolation-${randomUUID()}`
  await server.call("listen", "server.sock")
  await server.call("listen", `\0${abstract}`)
  return {
    installation,
    directory,
    system: { kind: "host" },
    backend: {
      describe: () => server.call("describe"),
      create: (spec) => server.call("create", spec),
      start: (sandbox) => server.call("start", sandbox),
      stop: (sandbox, options) => server.call("stop", sandbox, options),
      remove: (sandbox) => server.call("remove", sandbox),
      inspect: (sandbox) => server.call("inspect", sandbox),
      logs: (sandbox) => server.call("logs", sandbox),
      stats: (sandbox) => server.call("stats", sandbox),
    },
    serverSockets: { path: join(directory, "server.sock"), abstract },
    network: await playNetwork(world, {
      dropRules: async () => {
        await world.host.run(`nft delete table inet ${namesOf(installation).table}`)
      },
      restoreRules: () => server.call("ensureNetwork"),
    }),
    census: () => server.call("census"),
    processesWith,
    async close() {
      await server.call("close")
      await server.end()
      await world.end()
    },
  }
}

/** The host has a listener on all its addresses, one on its loopback alone, and an address of IPv6. */
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

interface Server {
  call<Name extends keyof ServerCalls>(
    name: Name,
    ...args: Parameters<ServerCalls[Name]>
  ): Promise<Awaited<ReturnType<ServerCalls[Name]>>>
  end(): Promise<void>
}

/** With its data on a disk of the given size, in a mount namespace that nobody else has. */
const startServer = async (
  { host }: World,
  { serverSecret, diskBytes }: IsolationOptions,
): Promise<Server> => {
  const disk = await mkdtemp(join(tmpdir(), "berth-disk-"))
  const mount = `mount -t tmpfs -o size=${diskBytes},mode=0711 disk ${disk} && exec "$@"`
  const onDisk = ["unshare", "--mount", "--propagation=slave", "sh", "-c", mount, "sh"]
  const child = spawn(
    "nsenter",
    [
      `--net=/proc/${host.pid}/ns/net`,
      ...(diskBytes === undefined ? [] : onDisk),
      ...[process.execPath, "--conditions=source", join(import.meta.dirname, "server.ts")],
    ],
    {
      stdio: ["pipe", "pipe", "inherit"],
      env: {
        ...PLAIN_ENV,
        SERVER_SECRET: serverSecret,
        ...(diskBytes !== undefined && { TMPDIR: disk }),
      },
    },
  )
  const gone = once(child, "exit")
  const waiting = new Map<number, PromiseWithResolvers<unknown>>()
  const ready = Promise.withResolvers<void>()
  createInterface({ input: child.stdout }).on("line", (line) => {
    const { id, result, error } = JSON.parse(line)
    if (id === undefined) return ready.resolve()
    if (error === undefined) waiting.get(id)?.resolve(result)
    else waiting.get(id)?.reject(Object.assign(new Error(error.message), error))
    waiting.delete(id)
  })
  void gone.then(() => {
    const ended = new Error("the server ended")
    ready.reject(ended)
    for (const { reject } of waiting.values()) reject(ended)
  })
  await ready.promise
  let calls = 0
  return {
    call(name, ...args) {
      const id = ++calls
      const reply = Promise.withResolvers<unknown>()
      waiting.set(id, reply)
      child.stdin.write(`${JSON.stringify({ id, call: name, args })}\n`)
      return reply.promise as Promise<never>
    },
    async end() {
      child.stdin.end()
      await gone
      await rm(disk, { recursive: true, force: true })
    },
  }
}

const processesWith = async (argument: string): Promise<number> => {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name))
  const commands = pids.map((pid) => readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => ""))
  const found = (await Promise.all(commands)).filter((it) => it.split("\0").includes(argument))
  return found.length
}
