import { randomBytes } from "node:crypto"
import {
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  futimesSync,
  lstatSync,
  lutimesSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  statfsSync,
  symlinkSync,
  unlinkSync,
  writeSync,
} from "node:fs"
import { ofThisMachine } from "./of-this-machine.ts"

const A_DIRECTORY = constants.O_RDONLY | constants.O_DIRECTORY
const A_NEW_FILE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW

/** Only the owner has access to a folder until it is filled. */
const FILLING_MODE = 0o700

/** The most attempts to remove links that others keep putting in a folder's place. */
const MAX_ATTEMPTS = 3

/** The attributes of an entry in an archive. */
export interface Attributes {
  readonly mode: number
  readonly modifiedAtMs: number
}

/**
 * An open folder of this machine. Its entries are reached through the descriptor, and no link is followed: neither a
 * link that the sandbox named nor one that another process puts there meanwhile leads elsewhere. Calls are synchronous:
 * with thousands of small files, waiting for each call would take most of the time.
 */
export class LocalFolder {
  readonly #fd: number
  /** The path as people know it. */
  readonly #path: string
  /** Mode bits that the kernel gave a folder which this copy made. Undefined for a folder that existed before. */
  readonly #inherited: number | undefined

  private constructor(fd: number, path: string, inherited?: number) {
    this.#fd = fd
    this.#path = path
    this.#inherited = inherited
  }

  /** Opens the folder that the caller named: links in the caller's own path are followed. */
  static open(path: string): LocalFolder {
    return new LocalFolder(openSync(path, A_DIRECTORY), path)
  }

  /** Opens a folder in it, made if it does not exist. A link in its place is removed. */
  enter(name: Buffer): LocalFolder {
    return this.#blaming(name, () => {
      for (let attempt = 1; ; attempt++) {
        const isNew = makeDirectory(this.#at(name))
        try {
          const fd = openSync(this.#at(name), A_DIRECTORY | constants.O_NOFOLLOW)
          const inherited = isNew ? fstatSync(fd).mode & INHERITED_BITS : undefined
          return new LocalFolder(fd, this.#shown(name), inherited)
        } catch (thrown) {
          const found = lstatSync(this.#at(name), { throwIfNoEntry: false })
          if (found?.isSymbolicLink() !== true || attempt === MAX_ATTEMPTS) throw thrown
          unlinkSync(this.#at(name))
        }
      }
    })
  }

  /** Puts a file there, whole or not at all. A file or a link of that name is replaced. */
  async putFile(
    name: Buffer,
    { mode, modifiedAtMs }: Attributes,
    content: AsyncIterable<Uint8Array>,
  ): Promise<void> {
    const aside = this.#aside()
    try {
      const fd = openSync(aside, A_NEW_FILE, 0o600)
      try {
        for await (const chunk of content) writeAll(fd, chunk)
        fchmodSync(fd, permissionsOf(mode))
        futimesSync(fd, secondsOf(modifiedAtMs), secondsOf(modifiedAtMs))
      } finally {
        closeSync(fd)
      }
      renameSync(aside, this.#at(name))
    } catch (thrown) {
      rmSync(aside, { force: true })
      throw ofThisMachine(thrown, this.#shown(name))
    }
  }

  /** Puts a link there. A file or a link of that name is replaced. */
  putLink(name: Buffer, target: Buffer, { modifiedAtMs }: Pick<Attributes, "modifiedAtMs">): void {
    const aside = this.#aside()
    this.#blaming(name, () => {
      try {
        symlinkSync(target, aside)
        lutimesSync(aside, secondsOf(modifiedAtMs), secondsOf(modifiedAtMs))
        renameSync(aside, this.#at(name))
      } catch (thrown) {
        rmSync(aside, { force: true })
        throw thrown
      }
    })
  }

  /** Gives a folder that this copy made its mode and time; an existing one keeps its own. */
  settle({ mode, modifiedAtMs }: Attributes): void {
    if (this.#inherited === undefined) return
    futimesSync(this.#fd, secondsOf(modifiedAtMs), secondsOf(modifiedAtMs))
    fchmodSync(this.#fd, permissionsOf(mode) | this.#inherited)
  }

  /** The bytes and files that its disk has room for. */
  room(): { bytes: number; files: number } {
    const { bavail, bsize, files, ffree } = statfsSync(this.#at(Buffer.from(".")))
    // Some file systems do not count files.
    return { bytes: bavail * bsize, files: files === 0 ? Number.POSITIVE_INFINITY : ffree }
  }

  close(): void {
    closeSync(this.#fd)
  }

  /** A temporary name in the same folder, for a file that is not whole yet. */
  #aside(): Buffer {
    return this.#at(Buffer.from(`.berth-${randomBytes(8).toString("hex")}.part`))
  }

  /** Adds the path that people know to failures. */
  #blaming<Result>(name: Buffer, run: () => Result): Result {
    try {
      return run()
    } catch (thrown) {
      throw ofThisMachine(thrown, this.#shown(name))
    }
  }

  #at(name: Buffer): Buffer {
    return Buffer.concat([Buffer.from(`/proc/self/fd/${this.#fd}/`), name])
  }

  #shown(name: Buffer): string {
    return `${this.#path.replace(/\/+$/, "")}/${name.toString()}`
  }
}

/** Makes a directory. Returns whether it is new. */
const makeDirectory = (path: Buffer): boolean => {
  try {
    mkdirSync(path, FILLING_MODE)
    return true
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === "EEXIST") return false
    throw thrown
  }
}

/** Writes all bytes: a disk that fills up takes a part, and refuses the rest. */
const writeAll = (fd: number, chunk: Uint8Array): void => {
  for (let at = 0; at < chunk.length; ) at += writeSync(fd, chunk, at)
}

/** The set-group-id bit, which a folder whose files belong to its group passes on. It is the caller's own. */
const INHERITED_BITS = 0o2000

/** The permission bits alone, as far as the caller's umask leaves them. */
const permissionsOf = (mode: number): number => mode & 0o777 & ~process.umask()

/** The last second of the year 9999: no file has a later time. */
const LAST_SECOND = 253_402_300_799

const secondsOf = (ms: number): number => Math.min(Math.max(ms / 1000, 0), LAST_SECOND)
