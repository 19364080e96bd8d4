/** Moves to the start of the line and clears it. */
const NEW_LINE = "\r\u001b[K"

/** A line on a screen that the next one overwrites. */
export interface MovingLine {
  show(line: string): void
  /** Leaves the screen as it was. */
  end(): void
}

export const movingLine = (write: (text: string) => void): MovingLine => {
  let last = ""
  return {
    show: (line) => {
      if (line !== last) write(`${NEW_LINE}${line}`)
      last = line
    },
    end: () => {
      if (last !== "") write(NEW_LINE)
      last = ""
    },
  }
}
