import { once } from "node:events"
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises"
import { type IncomingMessage, request } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { newId } from "@berth/protocol/ids"
import type { DockerEngine, DockerEngineOptions } from "@berth/testing/docker/engine"
import { sharedEngine, startEngineWithImage } from "@berth/testing/docker/shared-engine"
import { z } from "zod"
import type { Backend } from "../../backend.ts"
import type { ContractHarness } from "../../testing/contract/harness.ts"
import { openDocker } from "../backend.ts"
import type { EngineAddress } from "../engine/address.ts"
import { dropFence } from "../network/fence.ts"
import { networkNames } from "../network/names.ts"

export interface DockerHarness extends ContractHarness {
  readonly engine: DockerEngine
  readonly directory: string
  readonly image: string
  /** Opens the same installation through another address of the engine. */
  openThrough(address: EngineAddress): Promise<Backend>
}

/**
 * Opens a backend on an engine with a small image, and the means to see what it leaves there. The engine is the shared
 * one, or with options for it one of its own.
 */
export const openHarness = async (
  options?: Partial<DockerEngineOptions> & { readonly dataIn?: string },
): Promise<DockerHarness> => {
  const { dataIn = tmpdir(), ...ofEngine } = options ?? {}
  const undo = new AsyncDisposableStack()
  try {
    const engine = await (options === undefined
      ? sharedEngine()
      : startEngineWithImage({ networks: false, ...ofEngine }))
    undo.defer(() => engine.stop())
    const { image } = engine
    const opened: Backend[] = []
    const others: Backend[] = []
    const directories: string[] = []
    undo.defer(async () => {
      for (const each of directories) await rm(each, { recursive: true, force: true })
    })
    undo.defer(async () => {
      for (const each of opened) await removeAll(each)
    })
    undo.defer(async () => {
      for (const each of others) await each.close()
    })
    const openAt = async (directory: string, installation = newId.installation()) => {
      const address = { socketPath: engine.socket }
      const backend = await openDocker({ installation, directory, engine: address, image })
      opened.push(backend)
      undo.defer(() => dropFence(networkNames(installation), never))
      return { backend, installation }
    }
    const makeDirectory = async () => {
      const made = await mkdtemp(join(dataIn, "berth-docker-data-"))
      directories.push(made)
      return made
    }
    const directory = await makeDirectory()
    const { backend, installation } = await openAt(directory)
    return {
      engine,
      directory,
      image,
      backend,
      installation,
      system: { kind: "image", digest: image },
      openThrough: async (engine) => {
        const through = await openDocker({ installation, directory, engine, image })
        others.push(through)
        return through
      },
      reopen: async () => (await openAt(directory, installation)).backend,
      other: async () => openAt(await makeDirectory()),
      census: () => takeCensus(engine, installation, directory),
      close: () => undo.disposeAsync(),
    }
  } catch (failure) {
    await undo.disposeAsync()
    throw failure
  }
}

const never = new AbortController().signal

/** Removes all sandboxes, so that a test that failed half-way leaves none. */
const removeAll = async (backend: Backend) => {
  for (const { identity } of await backend.list()) await backend.remove(identity.sandbox)
  await backend.close()
}

/** Counts everything that leads back to an installation, in the engine and on the host. */
const takeCensus = async (engine: DockerEngine, installation: string, directory: string) => {
  const label = encodeURIComponent(
    JSON.stringify({ label: [`berth.installation=${installation}`] }),
  )
  const [containers, volumes, sandboxes, mounts] = await Promise.all([
    askEngine(engine, "GET", `/containers/json?all=1&filters=${label}`),
    askEngine(engine, "GET", `/volumes?filters=${label}`),
    readdir(join(directory, "sandboxes")),
    readFile("/proc/self/mountinfo", "utf8"),
  ])
  return {
    containers: z.array(z.unknown()).parse(containers.body).length,
    volumes: z.object({ Volumes: z.array(z.unknown()) }).parse(volumes.body).Volumes.length,
    sandboxes: sandboxes.length,
    mounts: mounts.split("\n").filter((line) => line.includes(directory)).length,
  }
}

/** Sends the engine a request directly, without any code of the backend. */
export const askEngine = async (
  { socket: socketPath }: Pick<DockerEngine, "socket">,
  method: string,
  path: string,
  body?: object,
): Promise<{ status: number; body: unknown }> => {
  const headers = { "Content-Type": "application/json" }
  const asked = request({ socketPath, method, path, headers })
  asked.end(body && JSON.stringify(body))
  const [answer] = (await once(asked, "response")) as [IncomingMessage]
  const text = (await answer.toArray()).join("")
  return { status: answer.statusCode ?? 0, body: text === "" ? undefined : JSON.parse(text) }
}
