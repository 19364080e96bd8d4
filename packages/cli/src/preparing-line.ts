import { movingLine } from "./moving-line.ts"
import type { Terminal } from "./terminal.ts"

export interface PreparingLine {
  /** Shows the progress of a toolbox, in the server's words. */
  show(progress: string): void
  /** Leaves a screen as it was. Called before anything else is written. */
  end(): void
}

/** Shows the progress of a toolbox that a command waits for: one line that moves on a screen, a line for each step elsewhere. */
export const preparingLine = ({
  err,
  isScreen,
}: Pick<Terminal, "err" | "isScreen">): PreparingLine => {
  if (isScreen()) {
    const line = movingLine(err)
    return { show: (progress) => line.show(`waiting: ${progress}`), end: line.end }
  }
  let last = ""
  const show = (progress: string): void => {
    if (progress !== last) err(`waiting: ${progress}\n`)
    last = progress
  }
  return { show, end: () => {} }
}
