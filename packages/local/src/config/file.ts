import { BerthError } from "@berth/protocol/errors"
import { LineCounter, parseDocument } from "yaml"
import { readOwned } from "../owned/read.ts"
import type { Problem } from "./problem.ts"

/** The configuration file as it was found. */
export interface ConfigFile {
  readonly path: string
  readonly present: boolean
  /** Whether only the owner may read the file, as a file with a secret requires. */
  readonly isPrivate: boolean
  /** The keys and values, not yet checked. */
  readonly values: Readonly<Record<string, unknown>>
  /** Why the file could not be read as a mapping. */
  readonly problems: readonly Problem[]
}

/** The permission bits of everybody but the owner. */
const OTHERS = 0o077

/**
 * Reads the configuration file. `askedBy` names the flag or variable that wants this file; a file that nobody asked for
 * may be missing.
 */
export const readConfigFile = (path: string, askedBy: string | undefined): ConfigFile => {
  let isPrivate = false
  const found = (values: Record<string, unknown>, ...problems: string[]): ConfigFile => ({
    path,
    present: true,
    isPrivate,
    values,
    problems: problems.map((what) => ({
      path: "(file)",
      source: path,
      message: `${path}: ${what}`,
    })),
  })
  try {
    const file = readOwned(path, { followLast: true })
    isPrivate = file !== undefined && (file.mode & OTHERS) === 0
    if (file !== undefined) return found(...parse(file.text))
  } catch (error) {
    // The error names the wrong part of the path itself, and nothing else of the file counts then.
    if (error instanceof BerthError) throw error
    const { code } = error as NodeJS.ErrnoException
    if (code !== "ENOTDIR") return found({}, `cannot be read (${code})`)
  }
  if (askedBy !== undefined) return found({}, `does not exist, but ${askedBy} names it`)
  return { path, present: false, isPrivate, values: {}, problems: [] }
}

type Parsed = [values: Record<string, unknown>, ...problems: string[]]

const parse = (text: string): Parsed => {
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false })
  // The parser's messages quote the file, which may hold a secret: only code and place are told.
  const mistakes = [...document.errors, ...document.warnings].map(({ code, pos: [offset] }) => {
    const { line, col } = lines.linePos(offset)
    return `not valid YAML at line ${line}, column ${col} (${code})`
  })
  return mistakes.length > 0 ? [{}, ...mistakes] : toMapping(() => document.toJS())
}

const toMapping = (convert: () => unknown): Parsed => {
  let content: unknown
  try {
    content = convert()
  } catch {
    return [{}, "its aliases multiply beyond what is read"]
  }
  if (content === null || content === undefined) return [{}]
  if (typeof content !== "object" || Array.isArray(content)) {
    return [{}, "must hold `key: value` lines"]
  }
  return [content as Record<string, unknown>]
}
