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

/**
 * Characters that a terminal obeys, that change how others are shown, or that are not shown: controls, directions
 * of writing, what has no width, other ends of a line, halves of a character, and letters without a form.
 */
const UNSHOWN =
  /(?![\n\t])(?:[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\u115F\u1160\u3164\uFFA0]|\u034F|\u17B4|\u17B5)/gu

/** Text that others wrote, without what a terminal would obey or a reader would not see. */
export const printable = (text: string): string => text.replaceAll(UNSHOWN, "\u{FFFD}")

/** JSON that says the same to a program, without what a terminal would obey or a reader would not see. */
export const printableJson = (json: string): string => json.replaceAll(UNSHOWN, escaped)

/** A word as a shell reads it back, whatever is in it. */
export const shellWord = (word: string): string => {
  if (/^[\w@%+:,./][\w@%+:,./-]*$/.test(word)) return word
  const isPlain = !/[\n\t]/.test(word) && printable(word) === word
  if (isPlain) return `'${word.replaceAll("'", "'\\''")}'`
  return `$'${word
    .replaceAll(/[\\']/g, "\\$&")
    .replaceAll(/[\n\t]/g, escaped)
    .replaceAll(UNSHOWN, escaped)}'`
}

/** Each unit of UTF-16, as JSON and shells write it. */
const escaped = (text: string): string =>
  [...Array(text.length).keys()]
    .map((at) => `\\u${text.charCodeAt(at).toString(16).padStart(4, "0")}`)
    .join("")
