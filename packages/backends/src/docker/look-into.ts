import { timeoutSignal } from "@berth/host/timeout-signal"
import type { InstallationId } from "@berth/protocol/ids"
import { z } from "zod"
import { removeContainer } from "./engine/containers.ts"
import { type Engine, parseAnswer } from "./engine/engine.ts"
import { imageMissing } from "./engine/failures.ts"
import { INSTALLATION_LABEL } from "./engine/names.ts"
import { readSingleFile } from "./read-tar.ts"

/** Files of an image, as a container of it would have them. */
export interface ImageFiles {
  has(path: string): Promise<boolean>
  /** The text of a file; undefined if there is none, or if it is no file. */
  read(path: string): Promise<string | undefined>
}

interface Image {
  readonly installation: InstallationId
  readonly digest: string
}

/** How long undoing may take; the caller's own deadline may be over by then. */
const UNDO_DEADLINE_MS = 5_000
const SHORT_DIGEST = 12

/** Shows the files of an image by a container that is never started, and is removed afterwards. */
export const lookInto = async <Result>(
  engine: Engine,
  image: Image,
  signal: AbortSignal,
  look: (files: ImageFiles) => Promise<Result>,
): Promise<Result> => {
  const name = `berth-${image.installation}-look-${image.digest.slice("sha256:".length).slice(0, SHORT_DIGEST)}`
  // Removes the container by its name, since a creation may have succeeded without an answer.
  const remove = () => removeContainer(engine, name, timeoutSignal(UNDO_DEADLINE_MS))
  try {
    const engineId = await createIdle(engine, image, name, signal)
    return await look(filesOf(engine, engineId, signal))
  } finally {
    // A container that cannot be removed now carries our label: `repair` finds it.
    await remove().catch(() => {})
  }
}

const createIdle = async (
  engine: Engine,
  { installation, digest }: Image,
  name: string,
  signal: AbortSignal,
): Promise<string> => {
  const body = {
    Image: digest,
    Entrypoint: ["/never-started"],
    Labels: { [INSTALLATION_LABEL]: installation },
    HostConfig: { NetworkMode: "none" },
  }
  const request = { method: "POST", path: "/containers/create", query: { name }, body } as const
  const answer = await engine.ask(request, [201, 404, 409], signal)
  if (answer.status === 404) throw imageMissing(digest, answer.said)
  if (answer.status === 201) return parseAnswer(request, answer, z.object({ Id: z.string() })).Id
  // A server that crashed left the container.
  await removeContainer(engine, name, signal)
  return (await engine.read(request, z.object({ Id: z.string() }), signal)).Id
}

const filesOf = (engine: Engine, engineId: string, signal: AbortSignal): ImageFiles => {
  const request = (method: "GET" | "HEAD", path: string) =>
    ({ method, path: `/containers/${engineId}/archive`, query: { path } }) as const
  return {
    has: async (path) =>
      (await engine.ask(request("HEAD", path), [200, 404], signal)).status === 200,
    async read(path) {
      const { status, body } = await engine.ask(request("GET", path), [200, 404], signal)
      return status === 200 ? readSingleFile(body) : undefined
    },
  }
}
