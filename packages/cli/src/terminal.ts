/** Where a command writes. */
export interface Terminal {
  out(text: string): void
  err(text: string): void
  /** Whether standard output shows colours. */
  hasColors(): boolean
  /** Whether standard error is a screen, on which a line can be written over. */
  isScreen(): boolean
}

/** This process's own streams, each made when it is first written to: Node loads much for a stream. */
export const processTerminal = (): Terminal => ({
  out: writer(() => process.stdout),
  err: writer(() => process.stderr),
  hasColors: () => process.stdout.isTTY === true && process.stdout.hasColors(),
  isScreen: () => process.stderr.isTTY === true,
})

const writer = (open: () => NodeJS.WriteStream) => {
  let stream: NodeJS.WriteStream | undefined
  return (text: string): void => {
    stream ??= open().on("error", surviveBrokenPipe)
    stream.write(text)
  }
}

/** A reader that has seen enough (`berth config | head -1`) is no failure; a disk that is full is one. */
const surviveBrokenPipe = (error: NodeJS.ErrnoException): void => {
  if (error.code !== "EPIPE") process.exitCode = 1
}

/** Text that others wrote, without what a terminal would obey. */
export const printable = (text: string): string => text.replaceAll(/[^\P{Cc}\n\t]/gu, "\u{FFFD}")
