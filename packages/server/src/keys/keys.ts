import { resolve } from "node:path"
import { parseEnv } from "node:util"
import { BerthError } from "@berth/protocol/errors"
import { Environment } from "@berth/protocol/workspace"
import type { Secrets } from "../logging/secrets.ts"
import { readOwned } from "../owned/read.ts"

/** The keys that agents get, by name. */
export interface Keys {
  /** Fails with the names of those that are not there. What it gives is kept out of the log from then on. */
  read(names: readonly string[]): Promise<Environment>
}

/** For sandboxes whose agents need none. */
export const NO_KEYS: Keys = {
  read: async (names) => {
    if (names.length > 0) throw missingKeys(names, {})
    return {}
  },
}

/** In a file of lines NAME=value, which is read each time: a key that is changed there counts from the next use. */
export const openKeys = (path: string, secrets: Secrets): Keys => ({
  read: async (names) => {
    if (names.length === 0) return {}
    const known = readKeys(path)
    const missing = names.filter((name) => !known[name])
    if (missing.length > 0) throw missingKeys(missing, { file: path })
    const keys = Object.fromEntries(names.map((name) => [name, known[name] as string]))
    for (const value of Object.values(keys)) secrets.add(value)
    return keys
  },
})

/** The rights of everybody but the owner. */
const OTHERS = 0o077

const readableByOthers = (path: string): BerthError =>
  new BerthError("config.invalid", `others than its owner may use the file of keys: ${path}`, {
    details: { path, allowed: "a file of mode 600: chmod 600" },
  })

const readKeys = (path: string): Environment => {
  try {
    const file = readOwned(resolve(path), { followLast: true })
    if (file === undefined) return {}
    if ((file.mode & OTHERS) !== 0) throw readableByOthers(path)
    return Environment.parse(parseEnv(file.text))
  } catch (cause) {
    if (cause instanceof BerthError) throw cause
    // Its own words could repeat a line of the file.
    throw new BerthError("config.invalid", `the file of keys cannot be read: ${path}`, {
      details: { path, allowed: "lines of the form NAME=value" },
    })
  }
}

const missingKeys = (keys: readonly string[], where: object): BerthError =>
  new BerthError("agent.key_missing", `the server has no key ${keys.join(", ")}`, {
    details: { keys, ...where },
  })
