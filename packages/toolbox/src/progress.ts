import type { ToolboxProgress } from "@berth/protocol/toolbox"

export type OnProgress = (progress: ToolboxProgress) => void

/** Counts the bytes of one step. */
export const countStep = (
  step: ToolboxProgress["step"],
  bytesTotal: number,
  onProgress: OnProgress,
): ((bytes: number, entry: string) => void) => {
  let bytesDone = 0
  return (bytes, entry) => {
    bytesDone += bytes
    // A file that grows while it is read is noticed elsewhere; here it must not make more than the total.
    onProgress({ step, entry, bytesDone: Math.min(bytesDone, bytesTotal), bytesTotal })
  }
}
