import type { ForkProgress } from "@berth/protocol/sandboxes"
import { movingLine } from "./moving-line.ts"

/** Shows the progress of a fork on a screen, in one line that moves. */
export const showForking = (write: (text: string) => void) => {
  const line = movingLine(write)
  return {
    show: (progress: ForkProgress) => line.show(sayForking(progress)),
    end: line.end,
  }
}

const sayForking = ({ stage, files, of }: ForkProgress): string => {
  if (stage === "starting") return "starting the new sandbox"
  const amount =
    of === 0 ? "" : `: ${files.toLocaleString("en")} of ${of.toLocaleString("en")} files`
  const what = stage === "copying" ? "copying while it runs" : "it stands still for the rest"
  return `${what}${amount}`
}
