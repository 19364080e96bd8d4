/** The outputs of a command. */
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
  isScreen: () => process.stderr.isTTY === true && process.env.TERM !== "dumb",
})

const writer = (open: () => NodeJS.WriteStream) => {
  let stream: NodeJS.WriteStream | undefined
  return (text: string): void => {
    stream ??= open().on("error", surviveBrokenPipe)
    stream.write(text)
  }
}

/** Ignores a reader that has seen enough (`berth config | head -1`); a full disk is a failure. */
const surviveBrokenPipe = (error: NodeJS.ErrnoException): void => {
  if (error.code !== "EPIPE") process.exitCode = 1
}

/**
 * Characters that control a terminal, change how others are shown, or are not shown: controls, directions of writing,
 * characters without width, other line ends, halves of a character, and letters without a form.
 */
const UNSHOWN =
  /(?![\n\t])(?:[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\u115F\u1160\u3164\uFFA0]|\u034F|\u17B4|\u17B5)/gu

/** Foreign text without characters that control a terminal or that a reader would not see. */
export const printable = (text: string): string => text.replaceAll(UNSHOWN, "\u{FFFD}")

/** JSON of the same meaning to a program, without characters that control a terminal or that a reader would not see. */
export const printableJson = (json: string): string => json.replaceAll(UNSHOWN, escaped)

/** A word quoted so that a shell reads it back, whatever is in it. */
export const shellWord = (word: string): string => {
  if (/^[\w@%+:,./][\w@%+:,./-]*$/.test(word)) return word
  const isPlain = !/[\n\t]/.test(word) && printable(word) === word
  if (isPlain) return `'${word.replaceAll("'", "'\\''")}'`
  return `$'${word
    .replaceAll(/[\\']/g, "\\$&")
    .replaceAll(/[\n\t]/g, escaped)
    .replaceAll(UNSHOWN, escaped)}'`
}

/** Escapes each unit of UTF-16, as JSON and shells do. */
const escaped = (text: string): string =>
  [...Array(text.length).keys()]
    .map((at) => `\\u${text.charCodeAt(at).toString(16).padStart(4, "0")}`)
    .join("")
