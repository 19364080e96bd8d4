import { randomBytes } from "node:crypto"
import { chmod, chown, mkdir, open, readdir, readFile, stat, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { removeSmallTree } from "@berth/host/remove-tree"
import type { BootPlan } from "@berth/protocol/boot-plan"
import { BerthError } from "@berth/protocol/errors"
import { SandboxId } from "@berth/protocol/ids"
import { SHARED } from "@berth/protocol/shared-directory"

/** The directory that one sandbox shares with the server. */
export interface SharedDirectory {
  readonly sandbox: SandboxId
  /** Its path on the host; the sandbox has it at SHARED_TARGET. Everything in it is under the sandbox's control. */
  readonly directory: string
  readonly socket: string
  readonly token: string
}

/** The shared directories that exist. */
export interface FoundSharedDirectories {
  find(sandbox: SandboxId): Promise<SharedDirectory | undefined>
  list(): Promise<SandboxId[]>
  /** The sandbox whose shared directory was made last. */
  latest(): Promise<SandboxId | undefined>
}

/** The directories that sandboxes share with the server: one each, made before the sandbox and removed after it. */
export interface SharedDirectories extends FoundSharedDirectories {
  /** Makes a shared directory. A repeated call for the same sandbox gives the same directory, with this plan. */
  make(plan: BootPlan): Promise<SharedDirectory>
  /**
   * Removes the shared directory of a sandbox that is gone. May be called twice. A failure is returned, never thrown: a
   * sandbox controls the contents of its directory, and must not hold up others. The directory is still listed then.
   */
  remove(sandbox: SandboxId): Promise<BerthError | undefined>
}

export interface SharedDirectoriesOptions {
  readonly root: string
  /** The id on the host of the sandbox's root. */
  readonly owner: number
}

const TOKEN_BYTES = 32
/** The server's copy of the token, beside the directory that the sandbox sees and out of its reach. */
const TOKEN_FILE = "token"
const INSIDE = "inside"

export const findSharedDirectories = (root: string): FoundSharedDirectories => {
  const list = async () => {
    const names = (await readdir(root).catch(absent)) ?? []
    return names.flatMap((name) => {
      const parsed = SandboxId.safeParse(name)
      return parsed.success ? [parsed.data] : []
    })
  }
  return {
    list,
    find: async (sandbox) => {
      const token = await readFile(join(root, sandbox, TOKEN_FILE), "utf8").catch(absent)
      return token === undefined ? undefined : sharedDirectoryIn(root, sandbox, token)
    },
    latest: async () => {
      const made = await Promise.all(
        (await list()).map(async (sandbox) => {
          const status = await stat(join(root, sandbox, TOKEN_FILE)).catch(absent)
          return { sandbox, atMs: status?.mtimeMs ?? 0 }
        }),
      )
      return made.sort((one, other) => other.atMs - one.atMs)[0]?.sandbox
    },
  }
}

export const openSharedDirectories = ({
  root,
  owner,
}: SharedDirectoriesOptions): SharedDirectories => {
  const found = findSharedDirectories(root)
  return {
    ...found,
    make: async (plan) => {
      const { sandbox } = plan
      try {
        const shared =
          (await found.find(sandbox)) ??
          sharedDirectoryIn(root, sandbox, randomBytes(TOKEN_BYTES).toString("base64url"))
        await mkdir(shared.directory, { recursive: true, mode: 0o700 })
        const files = { [SHARED.token]: shared.token, [SHARED.plan]: JSON.stringify(plan) }
        for (const [name, text] of Object.entries(files)) {
          const path = join(shared.directory, name)
          // The file is made anew, so that nothing is written through a link that an earlier sandbox left there.
          await removeSmallTree(path)
          const file = await open(path, "wx", 0o600)
          try {
            await file.writeFile(text)
            await file.chmod(0o600)
            await file.chown(owner, owner)
          } finally {
            await file.close()
          }
        }
        await chmod(shared.directory, 0o700)
        await chown(shared.directory, owner, owner)
        // The token comes last: with it, the shared directory is complete.
        await writeFile(join(root, sandbox, TOKEN_FILE), shared.token, { mode: 0o600 })
        return shared
      } catch (cause) {
        throw failed("made", sandbox, cause)
      }
    },
    remove: async (sandbox) => {
      try {
        await removeSmallTree(join(root, sandbox))
        return undefined
      } catch (cause) {
        return failed("removed", sandbox, cause)
      }
    },
  }
}

const sharedDirectoryIn = (root: string, sandbox: SandboxId, token: string): SharedDirectory => {
  const directory = join(root, sandbox, INSIDE)
  return { sandbox, directory, socket: join(directory, SHARED.socket), token }
}

const absent = (thrown: NodeJS.ErrnoException): undefined => {
  if (thrown.code !== "ENOENT") throw thrown
}

const failed = (what: string, sandbox: SandboxId, cause: unknown): BerthError => {
  const { code, message } = cause as NodeJS.ErrnoException
  const isFull = code === "ENOSPC" || code === "EDQUOT"
  return new BerthError(
    isFull ? "backend.disk_full" : "backend.engine_failed",
    `the shared directory of ${sandbox} could not be ${what}: ${message}`,
    { details: { sandbox, systemSaid: message }, cause },
  )
}
