import { mkdir, readdir, rename, rm } from "node:fs/promises"
import { basename, join } from "node:path"
import { removeSmallTree } from "@berth/host/remove-tree"
import { settleAll } from "@berth/host/settle-all"
import { SandboxId } from "@berth/protocol/ids"
import {
  ASIDE,
  beginState,
  DAMAGED,
  damagedOnly,
  parseState,
  readStateText,
  type SandboxState,
  writeState,
} from "./state-file.ts"
import { pathsOf, placesIn, type SandboxPaths, type StatePlaces } from "./state-paths.ts"

/** The sandboxes of one installation, on disk: one directory each, found again after any crash. */
export class StateDirectory {
  readonly #places: StatePlaces
  /** The last state that was read of each sandbox: each look at a sandbox reads it, and few change it. */
  readonly #parsed = new Map<SandboxId, { readonly text: string; readonly state: SandboxState }>()

  constructor(root: string) {
    this.#places = placesIn(root)
  }

  get exits(): string {
    return this.#places.exits
  }

  get runtimeRoot(): string {
    return this.#places.runtimeRoot
  }

  get sockets(): string {
    return this.#places.sockets
  }

  /** Makes the directories, and removes leftovers of a `begin` that a crash interrupted. */
  async prepare(): Promise<void> {
    const { sandboxes, exits, runtimeRoot, sockets } = this.#places
    for (const directory of [sandboxes, exits, runtimeRoot, sockets]) {
      await mkdir(directory, { recursive: true, mode: 0o700 })
    }
    const unfinished = (await readdir(sandboxes)).filter((name) => name.endsWith(ASIDE))
    await Promise.all(unfinished.map((name) => rm(join(sandboxes, name), { recursive: true })))
  }

  paths(sandbox: SandboxId): SandboxPaths {
    return pathsOf(this.#places, sandbox)
  }

  /** Makes the sandbox's directory, with its state and an empty bundle in it: all or nothing. */
  async begin(state: SandboxState): Promise<void> {
    await beginState(this.paths(state.spec.identity.sandbox), state)
  }

  async write(state: SandboxState): Promise<void> {
    writeState(this.paths(state.spec.identity.sandbox), state)
  }

  /** Undefined if there is no such sandbox, or only a `begin` that a crash interrupted. */
  async read(sandbox: SandboxId): Promise<SandboxState | undefined> {
    const paths = this.paths(sandbox)
    const text = readStateText(paths)
    if (text === undefined) {
      this.#parsed.delete(sandbox)
      return undefined
    }
    const last = this.#parsed.get(sandbox)
    if (last?.text === text) return last.state
    const state = parseState(text, paths)
    this.#parsed.set(sandbox, { text, state })
    return state
  }

  async list(): Promise<SandboxId[]> {
    const names = await readdir(this.#places.sandboxes)
    return names.filter((name): name is SandboxId => SandboxId.safeParse(name).success)
  }

  /** The state of every sandbox whose state is whole: a damaged one hides no other. */
  async readAll(): Promise<SandboxState[]> {
    const sandboxes = await this.list()
    const all = await Promise.all(sandboxes.map((each) => this.read(each).catch(damagedOnly)))
    return all.filter((state) => state !== undefined && state !== DAMAGED)
  }

  /** Removes a sandbox's directory. The state goes last: as long as anything is left, the sandbox is known. */
  async remove(sandbox: SandboxId, signal: AbortSignal): Promise<void> {
    const { directory, state, exit } = this.paths(sandbox)
    const inside = (await readdir(directory).catch(absent)) ?? []
    const rest = inside.filter((name) => name !== basename(state))
    await settleAll(rest.map((name) => removeSmallTree(join(directory, name), signal)))
    await rm(exit, { force: true })
    await removeSmallTree(directory, signal)
    this.#parsed.delete(sandbox)
  }

  /** Takes a sandbox's directory out of the way without deleting anything in it. */
  async setAside(sandbox: SandboxId): Promise<void> {
    const { damaged } = this.#places
    const { directory, exit } = this.paths(sandbox)
    await mkdir(damaged, { recursive: true, mode: 0o700 })
    await rename(directory, join(damaged, `${sandbox}-${Date.now()}`))
    await rm(exit, { force: true })
  }
}

const absent = (thrown: NodeJS.ErrnoException): undefined => {
  if (thrown.code !== "ENOENT") throw thrown
}
