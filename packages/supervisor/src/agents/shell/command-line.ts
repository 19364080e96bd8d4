const SHELL = "/bin/sh"

/** Limit of one argument. The kernel takes 128 KiB, and a character may have three bytes. */
const MAX_ARGUMENT_CHARS = 40 * 1024

/**
 * The command that runs a text in a shell, with the given arguments. A text too long for one argument is passed in
 * several, and the shell joins them. So there is no temporary file to protect and remove, and standard input stays
 * free.
 */
export const commandLine = (
  text: string,
  args: readonly string[],
): readonly [string, ...string[]] => {
  if (text.length <= MAX_ARGUMENT_CHARS) return [SHELL, "-c", text, SHELL, ...args]
  const pieces = piecesOf(text)
  const whole = pieces.map((_, place) => `\${${place + 1}}`).join("")
  // On one line with the text, so that line numbers in the shell's error messages are the text's own.
  return [SHELL, "-c", `eval "shift ${pieces.length}; ${whole}"`, SHELL, ...pieces, ...args]
}

/** Splits a text into arguments, never within a surrogate pair. */
const piecesOf = (text: string): readonly string[] => {
  const pieces: string[] = []
  for (let from = 0; from < text.length; ) {
    const end = from + MAX_ARGUMENT_CHARS
    const to = isFirstHalf(text.charCodeAt(end - 1)) ? end - 1 : end
    pieces.push(text.slice(from, to))
    from = to
  }
  return pieces
}

const isFirstHalf = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdbff
