import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { mkdir, mkdtemp, readFile, rm } from "node:fs/promises"
import { type IncomingMessage, request } from "node:http"
import { type AddressInfo, createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"

/** A Docker engine with private directories and socket, so that no other engine is touched. */
export interface DockerEngine {
  readonly socket: string
  /** The directory of its data. */
  readonly data: string
  /** The value of DOCKER_HOST that leads to the engine. */
  readonly host: string
  /** The address on which an engine with `hidden` listens beside its socket: `tcp://127.0.0.1:PORT`. */
  readonly tcp: string
  /**
   * Kills the engine as a crash would, and starts it again on the same data; `change` turns live-restore on or off from
   * then on.
   */
  restart(change?: Pick<DockerEngineOptions, "liveRestore">): Promise<void>
  stop(): Promise<void>
}

export interface DockerEngineOptions {
  /** Without networks the engine leaves the host's firewall alone, and has `--network none` only. */
  readonly networks: boolean
  /** Whether containers run on while the engine is down. */
  readonly liveRestore?: boolean
  /** A directory that the engine does not see, as if it were on another machine; it listens on a port then, too. */
  readonly hidden?: string
  /** Shell commands that run before the engine, in its own mount namespace; `$0` is the engine's directory. */
  readonly prepare?: string
  /** The size of the disk for all of its data. Default: the machine's own. */
  readonly diskBytes?: number
  /** More flags for the engine. */
  readonly flags?: readonly string[]
}

/** An engine is up in about 3 s; on a busy machine it takes longer. */
const START_DEADLINE_MS = 60_000
const STOP_DEADLINE_MS = 30_000
const PING_INTERVAL_MS = 50

/** The default pools hold about 30 networks and may belong to another engine. */
export const DOCKER_ADDRESS_POOL = "10.214.0.0/16"
const ADDRESS_POOL = `base=${DOCKER_ADDRESS_POOL},size=24`
const FAR_ADDRESS_POOL = "base=10.215.0.0/16,size=24"

export const startDockerEngine = async (given: DockerEngineOptions): Promise<DockerEngine> => {
  let options = given
  const directory = await mkdtemp(join(tmpdir(), "berth-docker-"))
  const data = join(directory, "data")
  await mkdir(data)
  if (options.diskBytes !== undefined) await mountDisk(data, options.diskBytes)
  const socket = join(directory, "docker.sock")
  const tcp = options.hidden === undefined ? "" : `tcp://127.0.0.1:${await freePort()}`
  let engine: ChildProcess
  const start = async () => {
    engine = spawnEngine(directory, [`unix://${socket}`, tcp], options)
    const log = collect(engine)
    try {
      await answers(engine, socket, log)
    } catch (failure) {
      await stop(engine, directory)
      throw failure
    }
  }
  await start()
  return {
    socket,
    data,
    host: `unix://${socket}`,
    tcp,
    async restart(change = {}) {
      options = { ...options, ...change }
      const ended = once(engine, "exit")
      engine.kill("SIGKILL")
      await ended
      // Its containerd dies with it. Until that is reaped, its pid looks like a running process.
      await rm(join(directory, "exec/containerd/containerd.pid"), { force: true })
      await start()
    },
    async stop() {
      if (options.networks && engine.exitCode === null) await removeNetworks(socket).catch(() => {})
      await stop(engine, directory)
    },
  }
}

const spawnEngine = (
  directory: string,
  hosts: readonly string[],
  { networks, liveRestore = false, hidden, prepare, flags = [] }: DockerEngineOptions,
): ChildProcess => {
  const at = (name: string) => join(directory, name)
  const [command = "", ...before] =
    hidden !== undefined
      ? after('mount -t tmpfs none "$0"', hidden)
      : prepare !== undefined
        ? after(prepare, directory)
        : ["dockerd"]
  const pool = hidden === undefined ? ADDRESS_POOL : FAR_ADDRESS_POOL
  return spawn(
    command,
    [
      before,
      ["--data-root", at("data"), "--exec-root", at("exec"), "--pidfile", at("pid")],
      ["--log-level", "error", ...hosts.flatMap((host) => (host === "" ? [] : ["--host", host]))],
      // Without this flag, an engine warns of a port without certificates, and waits.
      hidden === undefined ? [] : ["--tls=false"],
      liveRestore ? ["--live-restore"] : [],
      networks
        ? ["--bridge", "none", "--default-address-pool", pool]
        : ["--bridge", "none", "--iptables=false", "--ip-forward=false", "--ip-masq=false"],
      flags,
    ].flat(),
    { stdio: ["ignore", "pipe", "pipe"], detached: true },
  )
}

/** The command line of an engine in its own mount namespace, in which these commands run first. */
const after = (commands: string, directory: string): string[] => [
  ...["unshare", "--mount", "sh", "-c", `${commands} && exec dockerd "$@"`, directory],
]

const freePort = async (): Promise<number> => {
  const server = createServer().listen(0, "127.0.0.1")
  await once(server, "listening")
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, "close")
  return port
}

const answers = async (engine: ChildProcess, socket: string, log: () => string) => {
  const deadline = Date.now() + START_DEADLINE_MS
  while (!(await ping(socket))) {
    if (engine.exitCode !== null) throw new Error(`dockerd ended at its start:\n${log()}`)
    if (Date.now() > deadline) throw new Error(`dockerd did not answer in time:\n${log()}`)
    await new Promise((resolve) => setTimeout(resolve, PING_INTERVAL_MS))
  }
}

/** Removes the engine's networks: an engine that ends leaves its bridges, and the rules for them, on the host. */
const removeNetworks = async (socketPath: string) => {
  const containers = (await ask(socketPath, "GET", "/containers/json?all=1")) as { Id: string }[]
  for (const { Id } of containers) await ask(socketPath, "DELETE", `/containers/${Id}?force=1`)
  const networks = (await ask(socketPath, "GET", "/networks")) as { Id: string; Driver: string }[]
  for (const { Id } of networks.filter(({ Driver }) => Driver === "bridge")) {
    await ask(socketPath, "DELETE", `/networks/${Id}`)
  }
}

/** Sends a request to an engine, without any code of the project in between. */
export const ask = async (socketPath: string, method: string, path: string): Promise<unknown> => {
  const asked = request({ socketPath, method, path, timeout: STOP_DEADLINE_MS }).end()
  asked.on("timeout", () => asked.destroy())
  const [answer] = (await once(asked, "response")) as [IncomingMessage]
  const text = (await answer.toArray()).join("")
  return text === "" ? undefined : JSON.parse(text)
}

const ping = (socketPath: string): Promise<boolean> =>
  new Promise((resolve) => {
    const asked = request({ socketPath, path: "/_ping", timeout: 1_000 }, (reply) => {
      reply.resume()
      resolve(reply.statusCode === 200)
    })
    asked.on("timeout", () => asked.destroy())
    asked.on("error", () => resolve(false))
    asked.end()
  })

const stop = async (engine: ChildProcess, directory: string) => {
  if (engine.exitCode === null && engine.signalCode === null) {
    const ended = once(engine, "exit")
    engine.kill("SIGTERM")
    const late = setTimeout(() => engine.kill("SIGKILL"), STOP_DEADLINE_MS)
    await ended
    clearTimeout(late)
  }
  await unmountBelow(directory)
  await rm(directory, { recursive: true, force: true })
}

/** Mounts a disk, which is unmounted with everything else below the engine's directory. */
const mountDisk = async (path: string, bytes: number) => {
  const mount = ["-t", "tmpfs", "-o", `size=${bytes},mode=0711`, "disk", path]
  const [status] = await once(spawn("mount", mount, { stdio: "inherit" }), "exit")
  if (status !== 0) throw new Error(`mount ${mount.join(" ")} failed: ${status}`)
}

/** Unmounts everything below a directory: an engine that was killed leaves its mounts. */
const unmountBelow = async (directory: string) => {
  const mounts = (await readFile("/proc/self/mounts", "utf8"))
    .split("\n")
    .map((line) => line.split(" ")[1] ?? "")
    .filter((target) => target.startsWith(`${directory}/`))
  for (const target of mounts.reverse()) {
    await once(spawn("umount", ["--lazy", target], { stdio: "ignore" }), "exit")
  }
}

const collect = (engine: ChildProcess): (() => string) => {
  let text = ""
  for (const stream of [engine.stdout, engine.stderr]) {
    stream?.on("data", (chunk: Buffer) => {
      text = (text + chunk.toString("utf8")).slice(-16_384)
    })
  }
  return () => text
}
