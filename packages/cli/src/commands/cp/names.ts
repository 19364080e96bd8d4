import { BerthError } from "@berth/protocol/errors"

/** Longer names fit into no file system (NAME_MAX). */
const MAX_NAME_BYTES = 255

/** Longer targets are refused by the kernel (PATH_MAX). */
const MAX_TARGET_BYTES = 4095

/**
 * The names of one folder. Each appears once, also where a file system ignores case, the form in which a letter is
 * written, or characters that are not shown: there, two names would be one file.
 */
export class Names {
  readonly #names = new Set<string>()
  readonly #folded = new Map<string, string>()

  /** Takes a name that must be new. */
  add(name: Buffer): void {
    const text = name.toString("latin1")
    if (this.#names.has(text)) throw violated("the sandbox named one thing twice")
    this.#names.add(text)
    const folded = fold(name)
    const other = this.#folded.get(folded)
    if (other !== undefined) throw clash(other, name.toString())
    this.#folded.set(folded, name.toString())
  }
}

/** The parts of a path in an archive, each of which is a name; a directory's trailing slash does not count. */
export const partsOf = (path: Buffer, isDirectory: boolean): Buffer[] => {
  const text = path.toString("latin1")
  const parts = (isDirectory && text.endsWith("/") ? text.slice(0, -1) : text).split("/")
  if (parts.every(isName)) return parts.map((part) => Buffer.from(part, "latin1"))
  throw violated("the sandbox sent what is no name")
}

/** The name of a copy by default: that of its source. */
export const ownName = (path: Buffer): Buffer => {
  const parts = path.toString("latin1").split("/")
  const last = parts.findLast((part) => part !== "" && part !== ".") ?? ""
  if (isName(last)) return Buffer.from(last, "latin1")
  throw new BerthError("input.usage", "the copy has no name: say which, as in ./copy")
}

/** The target of a link, which may be anywhere. */
export const targetOf = (target: Buffer): Buffer => {
  if (target.length > 0 && target.length <= MAX_TARGET_BYTES && !target.includes(0)) return target
  throw violated("the sandbox sent a link that points to no path")
}

export const violated = (message: string): BerthError =>
  new BerthError("bridge.protocol_violated", message)

const isName = (text: string): boolean =>
  text !== "" &&
  text !== "." &&
  text !== ".." &&
  text.length <= MAX_NAME_BYTES &&
  !text.includes("/") &&
  !text.includes("\0")

/**
 * A key that is equal for names that a file system can take for one. Names that are not UTF-8 are compared as bytes.
 */
const fold = (name: Buffer): string => {
  const text = name.toString("utf8")
  if (PLAIN.test(text)) return text.toLowerCase()
  if (!Buffer.from(text).equals(name)) return name.toString("latin1").toLowerCase()
  return text
    .replaceAll(/\p{Default_Ignorable_Code_Point}/gu, "")
    .normalize("NFD")
    .toUpperCase()
    .toLowerCase()
    .normalize("NFD")
}

/** Most names are of these characters, and have one form. */
const PLAIN = /^[\x20-\x7e]*$/

const clash = (one: string, other: string): BerthError =>
  new BerthError("copy.names_clash", "a folder holds two names that some systems take for one", {
    details: { one, other },
  })
