import { statfs } from "node:fs/promises"
import { BerthError } from "@berth/protocol/errors"
import type { EngineInfo } from "./info.ts"

/** Less than an engine needs for a container. */
const LITTLE_BYTES = 1024 * 1024
const SERVER_ERROR = 500

/** The failure, told as a full disk if the engine's is: engines say so in words alone. */
export const orDiskFull = async (
  failure: unknown,
  { local, dataRoot }: EngineInfo,
): Promise<unknown> => {
  if (!local || !(failure instanceof BerthError)) return failure
  const { status, engineSaid } = failure.details
  if (typeof status !== "number" || status < SERVER_ERROR) return failure
  const { bavail, bsize } = await statfs(dataRoot)
  if (bavail * bsize >= LITTLE_BYTES) return failure
  return new BerthError("backend.disk_full", "the engine's disk is full", {
    details: { ...failure.details, path: dataRoot, engineSaid },
    cause: failure,
  })
}
