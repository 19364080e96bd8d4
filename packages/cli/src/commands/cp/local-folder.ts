import { randomBytes } from "node:crypto"
import { constants } from "node:fs"
import {
  type FileHandle,
  lstat,
  mkdir,
  open,
  rename,
  rm,
  statfs,
  symlink,
  unlink,
} from "node:fs/promises"
import { ofThisMachine } from "./of-this-machine.ts"

const A_DIRECTORY = constants.O_RDONLY | constants.O_DIRECTORY
const A_NEW_FILE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW

/** A folder is its owner's alone until it is filled. */
const FILLING_MODE = 0o700

/** Links that others keep putting in a folder's place are removed so many times. */
const MAX_ATTEMPTS = 3

/**
 * A folder of this machine, held open. Its entries are reached through the descriptor, and none of them is followed:
 * neither a link that the sandbox named nor one that another process puts there meanwhile leads elsewhere.
 */
export class LocalFolder {
  readonly #handle: FileHandle
  /** As people know it. */
  readonly #path: string
  /** Mode bits that the kernel gave a folder which this copy made. Undefined for a folder that existed before. */
  readonly #inherited: number | undefined

  private constructor(handle: FileHandle, path: string, inherited?: number) {
    this.#handle = handle
    this.#path = path
    this.#inherited = inherited
  }

  /** Opens the folder that the caller named: links in the caller's own path are followed. */
  static async open(path: string): Promise<LocalFolder> {
    return new LocalFolder(await open(path, A_DIRECTORY), path)
  }

  /** Opens a folder in it, which is made unless it is there. A link in its place is removed. */
  async enter(name: Buffer): Promise<LocalFolder> {
    return await this.#blaming(name, async () => {
      for (let attempt = 1; ; attempt++) {
        const isNew = await makeDirectory(this.#at(name))
        try {
          const handle = await open(this.#at(name), A_DIRECTORY | constants.O_NOFOLLOW)
          const inherited = isNew ? (await handle.stat()).mode & INHERITED_BITS : undefined
          return new LocalFolder(handle, this.#shown(name), inherited)
        } catch (thrown) {
          const isLink = (await lstat(this.#at(name)).catch(() => undefined))?.isSymbolicLink()
          if (isLink !== true || attempt === MAX_ATTEMPTS) throw thrown
          await unlink(this.#at(name))
        }
      }
    })
  }

  /** Puts a file there, whole or not at all. A file or a link of that name is replaced. */
  async putFile(
    name: Buffer,
    mode: number,
    fill: (file: FileHandle) => Promise<void>,
  ): Promise<void> {
    await this.#aside(name, async (aside) => {
      const file = await open(aside, A_NEW_FILE, 0o600)
      try {
        await fill(file)
        await file.chmod(permissionsOf(mode))
      } finally {
        await file.close()
      }
    })
  }

  /** Puts a link there. A file or a link of that name is replaced. */
  async putLink(name: Buffer, target: Buffer): Promise<void> {
    await this.#aside(name, (aside) => symlink(target, aside))
  }

  /** Gives a folder that this copy made its mode; one that was there before keeps its own. */
  async settle(mode: number): Promise<void> {
    if (this.#inherited === undefined) return
    await this.#handle.chmod(permissionsOf(mode) | this.#inherited)
  }

  /** The bytes and files that its disk has room for. */
  async room(): Promise<{ bytes: number; files: number }> {
    const { bavail, bsize, files, ffree } = await statfs(this.#at(Buffer.from(".")))
    // Some file systems do not count files.
    return { bytes: bavail * bsize, files: files === 0 ? Number.POSITIVE_INFINITY : ffree }
  }

  async close(): Promise<void> {
    await this.#handle.close()
  }

  /** Makes it under a name of its own, in the same folder, and then gives it the name. */
  async #aside(name: Buffer, make: (path: Buffer) => Promise<void>): Promise<void> {
    const aside = this.#at(Buffer.from(`.berth-${randomBytes(8).toString("hex")}.part`))
    await this.#blaming(name, async () => {
      try {
        await make(aside)
        await rename(aside, this.#at(name))
      } catch (thrown) {
        await rm(aside, { force: true })
        throw thrown
      }
    })
  }

  /** Tells failures with the path that people know. */
  async #blaming<Result>(name: Buffer, run: () => Promise<Result>): Promise<Result> {
    try {
      return await run()
    } catch (thrown) {
      throw ofThisMachine(thrown, this.#shown(name))
    }
  }

  #at(name: Buffer): Buffer {
    return Buffer.concat([Buffer.from(`/proc/self/fd/${this.#handle.fd}/`), name])
  }

  #shown(name: Buffer): string {
    return `${this.#path.replace(/\/+$/, "")}/${name.toString()}`
  }
}

/** Says whether it is new. */
const makeDirectory = async (path: Buffer): Promise<boolean> => {
  try {
    await mkdir(path, FILLING_MODE)
    return true
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === "EEXIST") return false
    throw thrown
  }
}

/** A folder whose files belong to its group hands this down, and it is the caller's own. */
const INHERITED_BITS = 0o2000

/** No more than permissions, and of those what the caller's umask leaves. */
const permissionsOf = (mode: number): number => mode & 0o777 & ~process.umask()
