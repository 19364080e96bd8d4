import { BerthError } from "@berth/protocol/errors"
import { orNoRoom } from "../no-room.ts"
import type { EngineInfo } from "./info.ts"

const SERVER_ERROR = 500

/** Turns a failure of the engine's own into that of a full disk if the engine's disk is full. */
export const orDiskFull = async (
  failure: unknown,
  { local, dataRoot }: EngineInfo,
): Promise<unknown> => {
  if (!local || !(failure instanceof BerthError)) return failure
  const { status } = failure.details
  if (typeof status !== "number" || status < SERVER_ERROR) return failure
  return orNoRoom(failure, dataRoot)
}
