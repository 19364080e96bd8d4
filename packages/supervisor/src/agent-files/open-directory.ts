import {
  chownSync,
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  fstatSync,
  mkdirSync,
  openSync,
  readdirSync,
} from "node:fs"
import type { User } from "../processes/user.ts"

/** Opens the entry itself, even a link. Node has no name for this flag of Linux. */
const O_PATH = 0o10000000
const THE_NAME_ITSELF = O_PATH | constants.O_NOFOLLOW
const A_DIRECTORY = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW

/** Mode of a new directory until it is given to the user. An exchanged one would not have it. */
const NEW_MODE = 0o700
const USERS_MODE = 0o755

/**
 * An open directory in a home. Root works in directories of the user, who may exchange any name for a link at any
 * moment. So names are never followed: each entry is reached through the open directory above it, and ownership is
 * given by descriptor, to the very file that was checked.
 */
export class OpenDirectory {
  readonly #fd: number

  private constructor(fd: number) {
    this.#fd = fd
  }

  static open(path: string): OpenDirectory {
    return new OpenDirectory(openSync(path, A_DIRECTORY))
  }

  /** The path of an entry. It stays in this directory wherever that is moved to. */
  at(name: string): string {
    return `/proc/self/fd/${this.#fd}/${name}`
  }

  /**
   * Opens a subdirectory. If it is missing, makes it and gives it to the user, if one is named. A directory that an
   * interrupted boot made is given away now.
   */
  enter(name: string, user: User | undefined): OpenDirectory {
    try {
      mkdirSync(this.at(name), NEW_MODE)
    } catch (thrown) {
      if ((thrown as NodeJS.ErrnoException).code !== "EEXIST") throw thrown
    }
    const directory = OpenDirectory.open(this.at(name))
    try {
      directory.#giveTo(user)
      return directory
    } catch (thrown) {
      directory.close()
      throw thrown
    }
  }

  /** Gives a symbolic link to the user. Owning a link gains nothing. */
  giveLink(name: string, user: User | undefined): void {
    if (user === undefined) return
    const fd = openSync(this.at(name), THE_NAME_ITSELF)
    try {
      if (fstatSync(fd).isSymbolicLink()) chownSync(`/proc/self/fd/${fd}`, user.uid, user.gid)
    } finally {
      closeSync(fd)
    }
  }

  close(): void {
    closeSync(this.#fd)
  }

  /** Gives the directory to the user, if it is as we made it: ours, closed to others and empty. */
  #giveTo(user: User | undefined): void {
    const { uid, mode } = fstatSync(this.#fd)
    const isNew = uid === process.geteuid?.() && (mode & 0o777) === NEW_MODE
    if (!isNew || readdirSync(this.at(".")).length > 0) return
    if (user !== undefined) fchownSync(this.#fd, user.uid, user.gid)
    fchmodSync(this.#fd, USERS_MODE)
  }
}
