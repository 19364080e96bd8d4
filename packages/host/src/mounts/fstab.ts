/** A line of a mount table, see fstab(5). */
export interface FstabEntry {
  readonly source: string
  readonly target: string
  readonly type: string
  readonly options: readonly string[]
}

/** Writes a mount table, for the runtime's own mount namespace. */
export const fstab = (entries: readonly FstabEntry[]): string =>
  entries
    .map(({ source, target, type, options }) =>
      [escaped(source), escaped(target), type, options.map(escaped).join(","), "0", "0"].join(" "),
    )
    .map((line) => `${line}\n`)
    .join("")

/** Writes separators, and the start of a comment, as three octal digits. */
const escaped = (text: string): string =>
  text.replaceAll(
    /[ \t\n\v\f\r\\#]/g,
    (letter) => `\\${letter.charCodeAt(0).toString(8).padStart(3, "0")}`,
  )
