/** The version in a program's output for `--version`: the first number with a dot, as printed. */
export const parseVersion = (output: string): string | undefined =>
  /(?<![\d.])\d+\.\d+[\w.+~-]*/.exec(output)?.[0]?.replace(/[.+~-]+$/, "")
