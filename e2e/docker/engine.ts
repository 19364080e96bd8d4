import { execFile } from "node:child_process"
import { readdirSync, readFileSync } from "node:fs"
import { promisify } from "node:util"
import type { DockerEngineOptions } from "@berth/testing/docker/engine"
import {
  type EngineWithImage,
  sharedEngine,
  startEngineWithImage,
} from "@berth/testing/docker/shared-engine"

const exec = promisify(execFile)

export interface Container {
  readonly Id: string
  readonly ImageID: string
  readonly State: string
  readonly Labels: Readonly<Record<string, string>>
  readonly Mounts: readonly { readonly Type: string }[]
  readonly Ports: readonly { readonly IP?: string; readonly PublicPort?: number }[]
}

const CONTAINERS = "http://engine/containers"

interface VolumeList {
  readonly Volumes: readonly { readonly Name: string }[] | null
}

/** The engine that the tests of a run share, for those that neither restart nor configure it. */
export const useSharedEngine = async () => engineFor(await sharedEngine())

/** Starts a separate engine. Its image also has these `files` of the host. */
export const startEngine = async ({
  files = [],
  ...options
}: Partial<DockerEngineOptions> & { readonly files?: readonly string[] } = {}) =>
  engineFor(await startEngineWithImage({ networks: false, ...options }, files))

const engineFor = (engine: EngineWithImage) => {
  const { image } = engine
  const ask = async (path: string): Promise<unknown> => {
    const url = `http://engine${path}`
    return JSON.parse((await exec("curl", ["-s", "--unix-socket", engine.socket, url])).stdout)
  }
  const change = async (...args: string[]): Promise<void> => {
    await exec("curl", ["-sf", "--unix-socket", engine.socket, ...args])
  }
  return {
    ...engine,
    /** The flags of a server that uses the engine. */
    flags: ["--backend", "docker", "--engine", engine.tcp || engine.host, "--image", image],
    /** The choice of this engine, for code that opens a backend itself. */
    choice: { name: "docker", engine: { socketPath: engine.socket }, image } as const,
    containers: async () => (await ask("/containers/json?all=1")) as Container[],
    /** The answer of `inspect` for a container, as one text. */
    inspect: async (id: string) => JSON.stringify(await ask(`/containers/${id}/json`)),
    volumes: async () => ((await ask("/volumes")) as VolumeList).Volumes ?? [],
    makeVolume: (Name: string) =>
      change("--json", JSON.stringify({ Name }), "http://engine/volumes/create"),
    /** Freezes a sandbox's container, as `docker pause` does. */
    pause: (sandbox: string) => change("-X", "POST", `${CONTAINERS}/berth-${sandbox}/pause`),
    removeVolume: (name: string) => change("-X", "DELETE", `http://engine/volumes/${name}`),
  }
}

/** The commands that run in containers, as the host sees them. */
export const processesOf = (containers: readonly Pick<Container, "Id">[]): string[] =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const cgroup = readFileSync(`/proc/${name}/cgroup`, "utf8")
        if (!containers.some(({ Id }) => cgroup.includes(Id))) return []
        return [readFileSync(`/proc/${name}/cmdline`, "utf8").replaceAll("\0", " ").trim()]
      } catch {
        return []
      }
    })
