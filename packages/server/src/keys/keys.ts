import { resolve } from "node:path"
import { parseEnv } from "node:util"
import { readOwned } from "@berth/local/owned/read"
import { BerthError } from "@berth/protocol/errors"
import { Environment } from "@berth/protocol/workspace"
import type { Secrets } from "../logging/secrets.ts"

/** The keys that agents get, by name. */
export interface Keys {
  /** Reads keys. Fails with the names of missing ones. The values are kept out of the log from then on. */
  read(names: readonly string[]): Promise<Environment>
}

/** Keys for sandboxes whose agents need none. */
export const NO_KEYS: Keys = {
  read: async (names) => {
    if (names.length > 0) throw missingKeys(names)
    return {}
  },
}

/** Keys in a file of lines NAME=value, which is read each time: a changed key counts from the next use. */
export const openKeys = (path: string, secrets: Secrets): Keys => ({
  read: async (names) => {
    if (names.length === 0) return {}
    const known = readKeys(path)
    const missing = names.filter((name) => !known[name])
    if (missing.length > 0) throw missingKeys(missing, path)
    const keys = Object.fromEntries(names.map((name) => [name, known[name] as string]))
    for (const value of Object.values(keys)) secrets.add(value)
    return keys
  },
})

/** The rights of everybody but the owner. */
const OTHERS = 0o077

const readableByOthers = (path: string): BerthError =>
  new BerthError("agent.keys_unusable", `others than its owner may use the file of keys: ${path}`, {
    details: { path, allowed: "a file of mode 600: chmod 600" },
  })

const readKeys = (path: string): Environment => {
  try {
    const file = readOwned(resolve(path), { followLast: true })
    if (file === undefined) return {}
    if ((file.mode & OTHERS) !== 0) throw readableByOthers(path)
    const malformed = malformedLine(file.text)
    if (malformed !== undefined) throw notKeys(path, malformed)
    return Environment.parse(parseEnv(file.text))
  } catch (cause) {
    if (cause instanceof BerthError) throw cause
    // The cause's own words are left out: they could repeat a line of the file.
    throw new BerthError("agent.keys_unusable", `the file of keys cannot be read: ${path}`, {
      details: { path, allowed: "lines of the form NAME=value" },
    })
  }
}

const notKeys = (path: string, line: number): BerthError =>
  new BerthError(
    "agent.keys_unusable",
    `line ${line} of the file of keys is not NAME=value: ${path}`,
    {
      details: {
        path,
        line,
        allowed: "lines of the form NAME=value, empty lines, and comments that begin with #",
      },
    },
  )

const ASSIGNMENT = /^\s*(?:export\s+)?[A-Za-z_]\w*\s*=\s*(.*)$/

/** The number of the first line that parseEnv would leave out without a word. A value in quotes may have several lines. */
const malformedLine = (text: string): number | undefined => {
  let quote: string | undefined
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    if (quote !== undefined) {
      if (line.includes(quote)) quote = undefined
      continue
    }
    if (/^\s*(#|$)/.test(line)) continue
    const value = ASSIGNMENT.exec(line)?.[1]
    if (value === undefined) return index + 1
    const [first = ""] = value
    if (/["'`]/.test(first) && !value.slice(1).includes(first)) quote = first
  }
  return undefined
}

const missingKeys = (keys: readonly string[], file?: string): BerthError => {
  const where = file === undefined ? "" : ` in ${file}`
  const message = `the server has no key ${keys.join(", ")}${where}`
  return new BerthError("agent.key_missing", message, { details: { keys, ...(file && { file }) } })
}
