import { chmodSync, chownSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { mkdir, readdir } from "node:fs/promises"
import { join } from "node:path"
import { removeSmallTree } from "@berth/host/remove-tree"
import { SandboxId } from "@berth/protocol/ids"
import { AGENT_USER } from "@berth/protocol/inside"
import { z } from "zod"
import { renamedNote } from "../earlier-words.ts"

/** A record of what was made in the engine for a sandbox, so that it can be removed without asking the engine. */
const Note = z.strictObject({
  engineId: z.string().regex(/^[0-9a-f]{64}$/),
  volumes: z.array(z.string()),
  /** The directory that the sandbox shares with the server, where the engine does not see it. */
  sharedDirectory: z.string().optional(),
})
export type Note = z.infer<typeof Note>

/**
 * Paths of one sandbox. `home` and `workspace` are mounted as /home and /workspace, unless a mount of its config is.
 */
export interface SandboxDirectories {
  readonly home: string
  readonly workspace: string
  /** The sandbox's own copies of the image's users and groups. */
  readonly passwd: string
  readonly group: string
  /** The sandbox's /dev, where the engine makes none. */
  readonly dev: string
  /**
   * An empty directory: an overlay without a writable layer needs two lower ones, so this one stands beside the shown
   * one.
   */
  readonly empty: string
}

/**
 * The directories of sandboxes. A sandbox's directory is made first and removed last, so that everything that a crash
 * leaves is found by it.
 */
export interface Directories {
  /** The directory that holds all of them. */
  readonly root: string
  paths(sandbox: SandboxId): SandboxDirectories
  /** Makes a sandbox's directory and says whether it is new. An existing one keeps its owner. */
  make(sandbox: SandboxId, idBase: number): Promise<boolean>
  write(sandbox: SandboxId, note: Note): Promise<void>
  /** Undefined if there is no complete note. The caller then asks the engine. */
  read(sandbox: SandboxId): Promise<Note | undefined>
  remove(sandbox: SandboxId): Promise<void>
  list(): Promise<SandboxId[]>
}

export const openDirectories = async (directory: string): Promise<Directories> => {
  const root = join(directory, "sandboxes")
  await mkdir(root, { recursive: true, mode: 0o711 })
  const paths = (sandbox: SandboxId): SandboxDirectories => ({
    home: join(root, sandbox, "home"),
    workspace: join(root, sandbox, "workspace"),
    passwd: join(root, sandbox, "passwd"),
    group: join(root, sandbox, "group"),
    dev: join(root, sandbox, "dev"),
    empty: join(root, sandbox, "empty"),
  })
  return {
    root,
    paths,
    async make(sandbox, idBase) {
      const { home, workspace, empty } = paths(sandbox)
      const isNew = makeOwned(join(root, sandbox), 0, 0o711)
      makeOwned(empty, 0, 0o755)
      makeOwned(home, idBase, 0o755)
      makeOwned(workspace, idBase + AGENT_USER.uid, 0o755)
      const agentHome = join(home, AGENT_USER.home.slice("/home".length))
      makeOwned(agentHome, idBase + AGENT_USER.uid, 0o700)
      return isNew
    },
    async write(sandbox, note) {
      writeFileSync(join(root, sandbox, "note"), JSON.stringify(note))
    },
    async read(sandbox) {
      try {
        const text = readFileSync(join(root, sandbox, "note"), "utf8")
        return Note.parse(renamedNote(JSON.parse(text)))
      } catch {
        return undefined
      }
    },
    remove: (sandbox) => removeSmallTree(join(root, sandbox)),
    list: async () =>
      (await readdir(root)).filter((name): name is SandboxId => SandboxId.safeParse(name).success),
  }
}

/** Synchronous: the thread pool's turns would take ten times as long as what the kernel does here. */
const makeOwned = (path: string, owner: number, mode: number): boolean => {
  try {
    mkdirSync(path)
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === "EEXIST") return false
    throw thrown
  }
  // Sets the mode exactly, whatever the server's umask is.
  chmodSync(path, mode)
  chownSync(path, owner, owner)
  return true
}
