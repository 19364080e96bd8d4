import { randomBytes } from "node:crypto"
import { mkdtemp, rm } from "node:fs/promises"
import { join } from "node:path"
import type { Engine } from "../engine/engine.ts"

const NO_SUCH_IMAGE = 404
const NO_SUCH_SOURCE = 400

/**
 * Whether an engine sees the files of this host. An engine looks at a mount's source before it looks for the image, so
 * a container of an image that nobody has is refused either way, and the refusal tells.
 */
export const seesHere = async (
  engine: Engine,
  directory: string,
  signal: AbortSignal,
): Promise<boolean> => {
  // The probe's name exists on no other machine.
  const probe = await mkdtemp(join(directory, "probe-"))
  try {
    const Mounts = [{ Type: "bind", Source: probe, Target: "/probe", ReadOnly: true }]
    const body = {
      Image: `sha256:${randomBytes(32).toString("hex")}`,
      HostConfig: { NetworkMode: "none", Mounts },
    }
    const request = { method: "POST", path: "/containers/create", body } as const
    const answer = await engine.ask(request, [NO_SUCH_IMAGE, NO_SUCH_SOURCE], signal)
    return answer.status === NO_SUCH_IMAGE
  } finally {
    await rm(probe, { recursive: true, force: true })
  }
}
