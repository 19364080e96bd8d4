import { statSync } from "node:fs"
import { BerthError } from "@berth/protocol/errors"
import Database from "better-sqlite3"
import { BUSY_TIMEOUT_MS } from "./connect.ts"

/** The first few findings are enough; a badly damaged file has thousands. */
const MAX_FINDINGS = 5

/** Whether there is a database to open. Throws if there are only remains of one. */
export const databaseExists = (path: string): boolean => {
  const size = sizeOf(path)
  // A new database beside the log or the journal of another would use it as its own.
  const orphan = [`${path}-wal`, `${path}-journal`].find(sizeOf)
  if (size === undefined && orphan) throw damaged(path, [`it is missing, but ${orphan} is there`])
  // A new database gets its name when it is complete, so an empty one has lost its content.
  if (size === 0) throw damaged(path, ["it is empty"])
  return size !== undefined
}

/**
 * Refuses a database that is damaged or newer than this code. The connection is read-only: a writable one would, when
 * it closes, move the log into the file.
 */
export const inspectDatabase = (path: string, newestVersion: number): void => {
  if (sizeOf(`${path}-journal`)) rollBack(path)
  const database = new Database(path, {
    readonly: true,
    fileMustExist: true,
    timeout: BUSY_TIMEOUT_MS,
  })
  try {
    const findings = database.prepare(`PRAGMA quick_check(${MAX_FINDINGS})`).pluck().all()
    if (findings[0] !== "ok") throw damaged(path, findings.map(String))
    const version = Number(database.pragma("user_version", { simple: true }))
    if (version > newestVersion) throw tooNew(path, version, newestVersion)
  } finally {
    database.close()
  }
}

/**
 * Undoes a transaction that a crash cut off before the write-ahead log was on, as when a restored copy is switched to
 * it. SQLite does that at the first read, if the connection can write.
 */
const rollBack = (path: string): void => {
  const database = new Database(path, { fileMustExist: true, timeout: BUSY_TIMEOUT_MS })
  try {
    database.pragma("schema_version")
  } finally {
    database.close()
  }
}

export const damaged = (path: string, findings: readonly string[]): BerthError =>
  new BerthError("store.damaged", `${path} is damaged: ${findings.join("; ")}`, {
    details: { path, findings },
  })

const tooNew = (path: string, version: number, newestVersion: number): BerthError =>
  new BerthError(
    "store.too_new",
    `${path} has schema version ${version}; this Berth knows versions up to ${newestVersion}`,
    { details: { path, version, newestVersion } },
  )

const sizeOf = (path: string): number | undefined => statSync(path, { throwIfNoEntry: false })?.size
