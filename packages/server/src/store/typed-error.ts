import { BerthError, type ErrorCode } from "@berth/protocol/errors"
import Database from "better-sqlite3"

type Meaning = readonly [code: ErrorCode, message: (path: string) => string]

const DISK_FULL: Meaning = ["store.disk_full", (path) => `No space is left for ${path}`]
const READ_ONLY: Meaning = ["store.read_only", (path) => `${path} cannot be written`]
const DAMAGED: Meaning = ["store.damaged", (path) => `${path} is damaged`]
const BUSY: Meaning = ["store.busy", (path) => `Another process keeps ${path} locked`]
const IO: Meaning = ["store.io", (path) => `Reading or writing ${path} failed`]

/**
 * SQLite's result codes about the disk or the file. The others (a violated constraint, wrong SQL) are about the query,
 * and its caller handles them. A whole extended code comes before its primary code.
 */
const SQLITE_CODES: Readonly<Record<string, Meaning>> = {
  SQLITE_FULL: DISK_FULL,
  // The shared-memory file is extended by writing to it, which fails when no space is left.
  SQLITE_IOERR_SHMSIZE: DISK_FULL,
  SQLITE_READONLY: READ_ONLY,
  SQLITE_PERM: READ_ONLY,
  SQLITE_CORRUPT: DAMAGED,
  SQLITE_NOTADB: DAMAGED,
  SQLITE_BUSY: BUSY,
  SQLITE_LOCKED: BUSY,
  SQLITE_IOERR: IO,
  SQLITE_CANTOPEN: IO,
}

const ERRNO_CODES: Readonly<Record<string, Meaning>> = {
  ENOSPC: DISK_FULL,
  EDQUOT: DISK_FULL,
  EROFS: READ_ONLY,
  EACCES: READ_ONLY,
  EPERM: READ_ONLY,
}

/** The typed error for a failure of SQLite or of the file system at `path`; anything else stays as it is. */
export const typedError = (thrown: unknown, path: string): unknown => {
  const meaning = meaningOf(thrown)
  if (meaning === undefined) return thrown
  const [code, message] = meaning
  const { code: systemCode, message: systemSaid } = thrown as NodeJS.ErrnoException
  return new BerthError(code, `${message(path)} (${systemCode}: ${systemSaid})`, {
    details: { path, systemCode },
    cause: thrown,
  })
}

const meaningOf = (thrown: unknown): Meaning | undefined => {
  if (thrown instanceof Database.SqliteError) {
    const { code } = thrown
    return SQLITE_CODES[code] ?? SQLITE_CODES[primaryCode(code)]
  }
  if (thrown instanceof Error && "errno" in thrown && "syscall" in thrown) {
    return ERRNO_CODES[String((thrown as NodeJS.ErrnoException).code)] ?? IO
  }
  return undefined
}

/** The primary code: `SQLITE_IOERR_FSYNC` → `SQLITE_IOERR`. */
const primaryCode = (code: string): string => code.split("_", 2).join("_")
