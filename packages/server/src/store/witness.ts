import { createHash } from "node:crypto"
import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  futimesSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeSync,
} from "node:fs"
import { join } from "node:path"

/** A file system in memory: what lies there survives the death of any process, and no start of the machine. */
const MEMORY = "/dev/shm"

/** The names of witnesses, which no data directory's path is part of. */
const NAME = /^berth-[0-9a-f]{20}$/

/** Numbers stand in so many digits, so that a later one takes the place of the one before. */
const DIGITS = 16

/** A note of a data directory that is gone is left for this long. A server touches its own every minute. */
const LEFT_MS = 10 * 60_000

/** The numbers of the last commits. */
export interface Commits {
  readonly last: number
  /** The last commit that was synced. */
  readonly durable: number
}

/**
 * A note outside of the data directory of how far a server's commits have come. After a kill of the server alone the
 * database has them all. A database that has fewer is not the one that the server wrote last: its file system has lost
 * what was not synced, or somebody put a copy in its place.
 */
export interface Witness {
  /** The commits of a server of this data directory that has not ended in order, if it left a note. */
  readonly found: Commits | undefined
  note(commits: Commits): void
  /** Tells that the server is still there. */
  touch(): void
  /** Removes the note: the server has ended in order. */
  remove(): void
  /** Leaves the note as it is. */
  close(): void
}

/** Opens the witness of a data directory. Where no note can be kept, there is a witness of nothing. */
export const openWitness = (dataDir: string, installation: string, directory = MEMORY): Witness => {
  sweep(directory)
  const path = join(directory, nameOf(realpathSync(dataDir)))
  const file = openOwn(path, constants.O_RDWR | constants.O_CREAT)
  if (file === undefined) return BLIND
  const found = parse(readFileSync(file, "utf8"))
  const about = `\n${installation}\n${realpathSync(dataDir)}\n`
  let isOpen = true
  const close = () => {
    if (isOpen) closeSync(file)
    isOpen = false
  }
  return {
    found: found?.installation === installation ? found.commits : undefined,
    note: ({ last, durable }) => {
      if (!isOpen) return
      try {
        // One write, so that no kill leaves half of it.
        writeSync(file, `${inDigits(last)} ${inDigits(durable)}${about}`, 0)
      } catch {
        // The commit is made. A note that is behind it says less, and nothing wrong.
      }
    },
    touch: () => {
      if (isOpen) futimesSync(file, new Date(), new Date())
    },
    remove: () => {
      if (isOpen) rmSync(path, { force: true })
      close()
    },
    close,
  }
}

const BLIND: Witness = {
  found: undefined,
  note: () => {},
  touch: () => {},
  remove: () => {},
  close: () => {},
}

const nameOf = (dataDir: string): string =>
  `berth-${createHash("sha256").update(dataDir).digest("hex").slice(0, 20)}`

const inDigits = (number: number): string => String(number).padStart(DIGITS, "0")

const parse = (text: string) => {
  const [numbers = "", installation = "", dataDir = ""] = text.split("\n")
  const [last, durable] = numbers.split(" ").map(Number)
  if (!last || !durable || !installation || !dataDir) return undefined
  return { commits: { last, durable }, installation, dataDir }
}

/** Opens a file of this user's. Anybody may write to the directory, so another user's file, or a link, is left alone. */
const openOwn = (path: string, flags: number): number | undefined => {
  let file: number
  try {
    file = openSync(path, flags | constants.O_NOFOLLOW, 0o600)
  } catch {
    return undefined
  }
  const status = fstatSync(file)
  if (status.isFile() && status.uid === process.geteuid?.() && status.nlink === 1) return file
  closeSync(file)
  return undefined
}

/** Removes the notes of data directories that are gone. A later one may be of a server that sees other mounts. */
const sweep = (directory: string): void => {
  const names = existsSync(directory) ? readdirSync(directory) : []
  for (const path of names.filter((name) => NAME.test(name)).map((name) => join(directory, name))) {
    const file = openOwn(path, constants.O_RDONLY)
    if (file === undefined) continue
    const dataDir = parse(readFileSync(file, "utf8"))?.dataDir
    const isOld = fstatSync(file).mtimeMs < Date.now() - LEFT_MS
    closeSync(file)
    if (isOld && dataDir !== undefined && !existsSync(join(dataDir, "berth.db"))) {
      rmSync(path, { force: true })
    }
  }
}
