import type { ToolboxProgress } from "@berth/protocol/toolbox"
import { sayBytes } from "../../say-size.ts"

/** Moves to the start of the line and clears it. */
const NEW_LINE = "\r\u001b[K"
/** Wide enough for the longest name of an entry. */
const ENTRY_WIDTH = 12

export interface ShownProgress {
  show(progress: ToolboxProgress): void
  /** Leaves the terminal as it was. */
  end(): void
}

/** Shows how far a build is: one line that moves on a screen, a line for each step elsewhere. */
export const showProgress = (
  write: (text: string) => void,
  { screen }: { readonly screen: boolean },
): ShownProgress => {
  let last = ""
  const writeNew = (line: string, text: string) => {
    if (line !== last) write(text)
    last = line
  }
  return {
    show: (progress) => {
      const { step, bytesTotal } = progress
      const line = screen ? moving(progress) : `${step} ${sayBytes(bytesTotal)}`
      writeNew(line, screen ? `${NEW_LINE}${line}` : `${line}\n`)
    },
    end: () => {
      if (screen && last !== "") write(NEW_LINE)
    },
  }
}

const moving = ({ step, entry, bytesDone, bytesTotal }: ToolboxProgress): string => {
  const percent = Math.floor((100 * bytesDone) / bytesTotal)
  const amount = `${sayBytes(bytesDone)} of ${sayBytes(bytesTotal)}`
  return `${step.padEnd(8)}  ${entry.padEnd(ENTRY_WIDTH)}  ${String(percent).padStart(3)} %  ${amount}`
}
