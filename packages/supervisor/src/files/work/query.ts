import { BerthError } from "@berth/protocol/errors"
import type { FilePath } from "@berth/protocol/files"
import { isBytes } from "./bytes.ts"

/** Parses one value of a query. Returns undefined if it is invalid. */
type Read<Value> = (text: string) => Value | undefined

export const wholeNumber =
  (least: number, most: number): Read<number> =>
  (text) => {
    const number = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN
    return number >= least && number <= most ? number : undefined
  }

export const octalMode: Read<number> = (text) =>
  /^[0-7]{1,4}$/.test(text) ? Number.parseInt(text, 8) : undefined

export const flag: Read<boolean> = (text) =>
  text === "true" ? true : text === "false" ? false : undefined

export const textUpTo =
  (chars: number): Read<string> =>
  (text) =>
    text.length > 0 && text.length <= chars && !text.includes("\0") ? text : undefined

type Values<Reads> = {
  readonly [Key in keyof Reads]?: Reads[Key] extends Read<infer V> ? V : never
}

/** Reads the path and the other given keys of a query. An unknown key is refused. */
export const readQuery = <Reads extends Readonly<Record<string, Read<unknown>>>>(
  query: URLSearchParams,
  reads: Reads,
): Values<Reads> & { readonly path: FilePath } => {
  const values: Record<string, unknown> = { path: pathOf(query) }
  for (const [key, text] of query) {
    if (key === "path" || key === "path64") continue
    const read = Object.hasOwn(reads, key) ? reads[key] : undefined
    if (read === undefined) throw new BerthError("input.invalid", `${key} is unknown here`)
    const value = read(text)
    if (value === undefined || Object.hasOwn(values, key))
      throw new BerthError("input.invalid", `${key} has the wrong form`, { details: { path: key } })
    values[key] = value
  }
  return values as Values<Reads> & { path: FilePath }
}

const pathOf = (query: URLSearchParams): FilePath => {
  const [text, base64] = [query.getAll("path"), query.getAll("path64")]
  if (text.length + base64.length !== 1)
    throw new BerthError("input.invalid", "one of path and path64 is needed", {
      details: { path: "path" },
    })
  const path = text[0] ?? { base64: base64[0] ?? "" }
  if (isBytes(path, "path") !== undefined)
    throw new BerthError("input.invalid", "path64 is not base64", { details: { path: "path64" } })
  return path
}
