const SHELL = "/bin/sh"

/** The kernel takes 128 KiB for one argument, and a character may have three bytes in it. */
const MAX_ARGUMENT_CHARS = 40 * 1024

/**
 * Runs a text, with these arguments. One that is too long for an argument is put together by the shell itself, from
 * several of them: no file would have to be kept from others and removed, and its standard input stays what it is.
 */
export const commandLine = (
  text: string,
  args: readonly string[],
): readonly [string, ...string[]] => {
  if (text.length <= MAX_ARGUMENT_CHARS) return [SHELL, "-c", text, SHELL, ...args]
  const pieces = piecesOf(text)
  const whole = pieces.map((_, place) => `\${${place + 1}}`).join("")
  // In one line with what follows, so that the numbers of lines in the shell's complaints are the text's own.
  return [SHELL, "-c", `eval "shift ${pieces.length}; ${whole}"`, SHELL, ...pieces, ...args]
}

/** Never between the two halves of one character, which would be lost. */
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
