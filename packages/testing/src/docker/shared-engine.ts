import { once } from "node:events"
import { mkdtemp, rm } from "node:fs/promises"
import { connect, createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { text } from "node:stream/consumers"
import { BOOT_PACKAGES } from "../system-files.ts"
import { ask, type DockerEngine, startDockerEngine } from "./engine.ts"
import { importSystemImage } from "./image.ts"

/** An engine with an image of a small system that can boot and has no part of Berth in it. */
export interface EngineWithImage extends DockerEngine {
  readonly image: string
}

type Answer = Pick<EngineWithImage, "socket" | "data" | "host" | "image"> | { failure: string }

/** The variable with the socket at which the tests of a run ask for their shared engine. */
const ASKED_AT = "BERTH_TEST_ENGINE"
const askedAt = process.env[ASKED_AT]

/**
 * Starts a separate engine, whose image also has these files of the host. Starting it and importing the image takes
 * several seconds.
 */
export const startEngineWithImage = async (
  options: Parameters<typeof startDockerEngine>[0],
  files: readonly string[] = [],
): Promise<EngineWithImage> => {
  const engine = await startDockerEngine(options)
  try {
    return { ...engine, image: await importSystemImage(engine, { packages: BOOT_PACKAGES, files }) }
  } catch (failure) {
    await engine.stop()
    throw failure
  }
}

/**
 * The engine without networks that all tests of a run share, started for the first that asks. A test that restarts,
 * fills or configures an engine starts its own; a test that counts contents counts those of its own installation.
 */
export const sharedEngine = async (): Promise<EngineWithImage> => {
  if (askedAt === undefined) throw new Error(`${ASKED_AT} is not set: no run of tests offers it`)
  const answer = JSON.parse(await text(connect(askedAt))) as Answer
  if ("failure" in answer) throw new Error(`the shared engine did not start: ${answer.failure}`)
  return {
    ...answer,
    tcp: "",
    restart: () => Promise.reject(new Error("others use this engine")),
    stop: async () => {},
  }
}

/** Offers one engine to all tests of a run; returns the function that ends it. */
export const offerEngine = async (): Promise<() => Promise<void>> => {
  const directory = await mkdtemp(join(tmpdir(), "berth-test-engine-"))
  const path = join(directory, "ask.sock")
  let started: Promise<EngineWithImage> | undefined
  const server = createServer((socket) => {
    socket.on("error", () => {})
    started ??= startEngineWithImage({ networks: false })
    void started.then(answerOf, failureOf).then((answer) => socket.end(JSON.stringify(answer)))
  })
  server.listen(path)
  await once(server, "listening")
  process.env[ASKED_AT] = path
  return async () => {
    server.close()
    await rm(directory, { recursive: true, force: true })
    // The tests that asked for an engine that did not start have reported it.
    const engine = await started?.catch(() => undefined)
    if (engine === undefined) return
    try {
      const left = await leftIn(engine)
      if (left.length > 0) throw new Error(`tests left in the shared engine: ${left.join(", ")}`)
    } finally {
      await engine.stop()
    }
  }
}

/** The names of containers and volumes that servers and backends did not remove. */
const leftIn = async ({ socket }: EngineWithImage): Promise<string[]> => {
  const ofBerth = `filters=${encodeURIComponent('{"label":["berth.installation"]}')}`
  const containers = await ask(socket, "GET", `/containers/json?all=1&${ofBerth}`)
  const volumes = await ask(socket, "GET", `/volumes?${ofBerth}`)
  return [
    ...(containers as { Names: string[] }[]).map(({ Names }) => `container ${Names.join(" ")}`),
    ...((volumes as { Volumes: { Name: string }[] | null }).Volumes ?? []).map(
      ({ Name }) => `volume ${Name}`,
    ),
  ]
}

const answerOf = ({ socket, data, host, image }: EngineWithImage): Answer => ({
  socket,
  data,
  host,
  image,
})

const failureOf = (failure: unknown): Answer => ({ failure: String(failure) })
