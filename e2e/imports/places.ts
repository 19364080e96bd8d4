import type { PlaceRules } from "./rules.ts"

/** A folder or a file directly in a package's `src`: the subject of a row of the table. */
export interface Place {
  /** `agents/acp` */
  readonly name: string
  /** `agents/*`: the row that holds for it; undefined where the table has none. */
  readonly row: string | undefined
}

/** The row for files directly in `src` that have none of their own. */
const OTHER_FILES = "*.ts"

/** The place of a file, given by its path in `src`. */
export function placeOf(pathInSrc: string, rules: PlaceRules): Place {
  const [first = "", second = "", ...deeper] = pathInSrc.split("/")
  const everyFolderIn = `${first}/*`
  if (everyFolderIn in rules && deeper.length > 0) {
    const folder = `${first}/${second}`
    return { name: folder, row: folder in rules ? folder : everyFolderIn }
  }
  const isFile = second === ""
  const name = isFile ? first.replace(/\..*$/, "") : first
  if (isFile && !(name in rules) && OTHER_FILES in rules)
    return { name: OTHER_FILES, row: OTHER_FILES }
  return { name, row: name in rules ? name : undefined }
}

/** Returns the places that a place may import besides itself. */
export const allowedFor = ({ row }: Place, rules: PlaceRules): readonly string[] =>
  row === undefined ? [] : (rules[row] ?? [])

export const mayImport = (from: Place, to: Place, rules: PlaceRules): boolean =>
  from.name === to.name || (to.row !== undefined && allowedFor(from, rules).includes(to.row))
