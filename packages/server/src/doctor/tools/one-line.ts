const MAX_LETTERS = 200

/** The first line of a program's output, short and without control characters, fit for a terminal. */
export const oneLine = (text: string): string => {
  const line = text.trim().split("\n", 1)[0] ?? ""
  const clean = line.replaceAll(/\p{C}/gu, "")
  return clean.length > MAX_LETTERS ? `${clean.slice(0, MAX_LETTERS)}…` : clean
}
