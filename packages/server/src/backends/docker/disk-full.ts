import { statfs } from "node:fs/promises"
import { BerthError } from "@berth/protocol/errors"
import type { EngineInfo } from "./info.ts"

/** A disk with less free than this is full: an engine needs more for a container. */
const LITTLE_BYTES = 1024 * 1024
const SERVER_ERROR = 500

/**
 * Turns a failure into one of a full disk if the engine's disk is full. Engines say so in words alone, so the disk is
 * looked at.
 */
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
