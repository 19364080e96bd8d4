import { chmodSync, chownSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { mkdir, readdir } from "node:fs/promises"
import { join } from "node:path"
import { SandboxId } from "@berth/protocol/ids"
import { AGENT_USER } from "@berth/protocol/inside"
import { z } from "zod"
import { removeSmallTree } from "../../host/remove-tree.ts"

/** What was made in the engine for a sandbox, so that it is removed without asking what it is. */
const Note = z.strictObject({
  engineId: z.string().regex(/^[0-9a-f]{64}$/),
  volumes: z.array(z.string()),
  /** The directory of its link, where the engine does not see it. */
  link: z.string().optional(),
})
export type Note = z.infer<typeof Note>

/** What appears as /home and /workspace of a sandbox, unless a mount of its config does. */
export interface SandboxDirectories {
  readonly home: string
  readonly workspace: string
  /** Its own copies of the image's users and groups. */
  readonly passwd: string
  readonly group: string
  /** Its /dev, where the engine makes none. */
  readonly dev: string
  /** An overlay without a writable layer has two others: this one, beside what it shows. */
  readonly empty: string
}

/**
 * The directories of sandboxes. One is made before anything else of its sandbox is, and removed last, so that
 * whatever a crash leaves is found by it.
 */
export interface Directories {
  /** What holds them all. */
  readonly root: string
  paths(sandbox: SandboxId): SandboxDirectories
  /** Says whether it is new. What exists keeps its owner. */
  make(sandbox: SandboxId, idBase: number): Promise<boolean>
  write(sandbox: SandboxId, note: Note): Promise<void>
  /** Undefined when there is no whole note: whoever needs it asks the engine. */
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
        return Note.parse(JSON.parse(readFileSync(join(root, sandbox, "note"), "utf8")))
      } catch {
        return undefined
      }
    },
    remove: (sandbox) => removeSmallTree(join(root, sandbox)),
    list: async () =>
      (await readdir(root)).filter((name): name is SandboxId => SandboxId.safeParse(name).success),
  }
}

/** At once: the thread pool's turns would take ten times as long as what the kernel does here. */
const makeOwned = (path: string, owner: number, mode: number): boolean => {
  try {
    mkdirSync(path)
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === "EEXIST") return false
    throw thrown
  }
  // Whatever the server's umask is.
  chmodSync(path, mode)
  chownSync(path, owner, owner)
  return true
}
