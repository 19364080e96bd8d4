import type { ToolboxProgress } from "@berth/protocol/toolbox"
import { movingLine } from "../../moving-line.ts"
import { sayBytes } from "../../say-size.ts"

/** Wide enough for the longest name of an entry. */
const ENTRY_WIDTH = 12

export interface ShownProgress {
  show(progress: ToolboxProgress): void
  /** Leaves the terminal as it was. */
  end(): void
}

/** Shows the progress of a build: one line that moves on a screen, a line for each step elsewhere. */
export const showProgress = (
  write: (text: string) => void,
  { screen }: { readonly screen: boolean },
): ShownProgress => {
  const line = movingLine(write)
  let last = ""
  const showStep = ({ step, bytesTotal }: ToolboxProgress): void => {
    const said = `${step} ${sayBytes(bytesTotal)}\n`
    if (said !== last) write(said)
    last = said
  }
  return {
    show: (progress) => (screen ? line.show(moving(progress)) : showStep(progress)),
    end: line.end,
  }
}

const moving = ({ step, entry, bytesDone, bytesTotal }: ToolboxProgress): string => {
  const percent = Math.floor((100 * bytesDone) / bytesTotal)
  const amount = `${sayBytes(bytesDone)} of ${sayBytes(bytesTotal)}`
  return `${step.padEnd(8)}  ${entry.padEnd(ENTRY_WIDTH)}  ${String(percent).padStart(3)} %  ${amount}`
}
