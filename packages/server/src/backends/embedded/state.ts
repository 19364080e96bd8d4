import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs"
import { mkdir, readdir, rename, rm } from "node:fs/promises"
import { basename, join } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import { SandboxId } from "@berth/protocol/ids"
import { SandboxSpec, UnheldLimit } from "@berth/protocol/sandbox"
import { z } from "zod"
import { removeSmallTree } from "../../host/remove-tree.ts"
import { settleAll } from "../../host/settle-all.ts"
import { ProcessIdentity } from "./process.ts"

/**
 * How far a sandbox has come: creating → created → started; any → removing. A sandbox that a new server finds
 * `creating` or `removing` was left by a crash; one that is found `created` may have been started.
 */
export const Progress = z.enum(["creating", "created", "started", "removing"])
export type Progress = z.infer<typeof Progress>

export const SandboxState = z.strictObject({
  version: z.literal(1),
  spec: SandboxSpec,
  progress: Progress,
  createdAt: z.iso.datetime(),
  /** The first id of the sandbox's range on the host, if it is not the installation's. */
  idBase: z.int().positive().optional(),
  /** The sandbox's first process, as the host sees it. */
  init: ProcessIdentity.optional(),
  /** conmon, which outlives the server and keeps the exit status. */
  monitor: ProcessIdentity.optional(),
  /** The system tree that the sandbox stands on. */
  system: z.string().optional(),
  unheldLimits: z.array(UnheldLimit),
})
export type SandboxState = z.infer<typeof SandboxState>

/** The paths of one sandbox's files. All paths come from a validated id. */
export interface SandboxPaths {
  readonly directory: string
  readonly state: string
  readonly bundle: string
  /** The table of mounts that are made for the runtime before it creates the container. */
  readonly mounts: string
  /** The directory in which the stacks of layers are mounted for the runtime alone. */
  readonly stacks: string
  readonly etc: string
  readonly home: string
  readonly workspace: string
  readonly log: string
  readonly initPid: string
  readonly monitorPid: string
  readonly exit: string
}

/**
 * The sandboxes of one installation, on disk: one directory each, found again after any crash. A state is read
 * and written synchronously: nothing is forced onto the disk, so the kernel takes it into its memory in a tenth
 * of the time that the thread pool's turns would take.
 */
export interface StateDirectory {
  readonly exits: string
  readonly runtimeRoot: string
  readonly sockets: string
  /** Makes the directories, and removes leftovers of a `begin` that a crash interrupted. */
  prepare(): Promise<void>
  paths(sandbox: SandboxId): SandboxPaths
  /** Makes the sandbox's directory, with its state and an empty bundle in it: all or nothing. */
  begin(state: SandboxState): Promise<void>
  write(state: SandboxState): Promise<void>
  /** Undefined if there is no such sandbox, or only a begin that a crash interrupted. */
  read(sandbox: SandboxId): Promise<SandboxState | undefined>
  list(): Promise<SandboxId[]>
  /** The state of every sandbox whose state is whole: a damaged one hides no other. */
  readAll(): Promise<SandboxState[]>
  /** Removes a sandbox's directory. The state goes last: as long as anything is left, the sandbox is known. */
  remove(sandbox: SandboxId, signal: AbortSignal): Promise<void>
  /** Takes a sandbox's directory out of the way without deleting anything in it. */
  setAside(sandbox: SandboxId): Promise<void>
}

/** The ending of files that do not count until they are renamed. */
const ASIDE = ".new"

export const stateDirectory = (root: string): StateDirectory => {
  const sandboxes = join(root, "sandboxes")
  const exits = join(root, "exits")
  const runtimeRoot = join(root, "runtime")
  const sockets = join(root, "sockets")
  const damaged = join(root, "damaged")

  const paths = (sandbox: SandboxId): SandboxPaths => {
    const directory = join(sandboxes, sandbox)
    const inside = (name: string) => join(directory, name)
    return {
      directory,
      state: inside("state.json"),
      bundle: inside("bundle"),
      mounts: inside("mounts"),
      stacks: inside("stacks"),
      etc: inside("etc"),
      home: inside("home"),
      workspace: inside("workspace"),
      log: inside("log"),
      initPid: inside("init.pid"),
      monitorPid: inside("monitor.pid"),
      exit: join(exits, sandbox),
    }
  }

  const read = async (sandbox: SandboxId): Promise<SandboxState | undefined> => {
    const { state: file } = paths(sandbox)
    let text: string
    try {
      text = readFileSync(file, "utf8")
    } catch (thrown) {
      return absent(thrown as NodeJS.ErrnoException)
    }
    return parseState(text, file)
  }

  const list = async (): Promise<SandboxId[]> => {
    const names = await readdir(sandboxes)
    return names.filter((name): name is SandboxId => SandboxId.safeParse(name).success)
  }

  return {
    exits,
    runtimeRoot,
    sockets,
    paths,
    async prepare() {
      for (const directory of [sandboxes, exits, runtimeRoot, sockets]) {
        await mkdir(directory, { recursive: true, mode: 0o700 })
      }
      const unfinished = (await readdir(sandboxes)).filter((name) => name.endsWith(ASIDE))
      await Promise.all(unfinished.map((name) => rm(join(sandboxes, name), { recursive: true })))
    },
    async begin(state) {
      const { directory, bundle } = paths(state.spec.identity.sandbox)
      const aside = `${directory}${ASIDE}`
      try {
        mkdirSync(join(aside, basename(bundle)), { recursive: true, mode: 0o700 })
        writeFileSync(join(aside, "state.json"), JSON.stringify(state), { mode: 0o600 })
        renameSync(aside, directory)
      } catch (thrown) {
        await rm(aside, { recursive: true, force: true })
        throw thrown
      }
    },
    async write(state) {
      const { state: file } = paths(state.spec.identity.sandbox)
      writeFileSync(`${file}${ASIDE}`, JSON.stringify(state), { mode: 0o600 })
      renameSync(`${file}${ASIDE}`, file)
    },
    read,
    list,
    async readAll() {
      const all = await Promise.all((await list()).map((each) => read(each).catch(damagedOnly)))
      return all.filter((state) => state !== undefined && state !== DAMAGED)
    },
    async remove(sandbox, signal) {
      const { directory, state, exit } = paths(sandbox)
      const inside = (await readdir(directory).catch(absent)) ?? []
      const rest = inside.filter((name) => name !== basename(state))
      await settleAll(rest.map((name) => removeSmallTree(join(directory, name), signal)))
      await rm(exit, { force: true })
      await removeSmallTree(directory, signal)
    },
    async setAside(sandbox) {
      const { directory, exit } = paths(sandbox)
      await mkdir(damaged, { recursive: true, mode: 0o700 })
      await rename(directory, join(damaged, `${sandbox}-${Date.now()}`))
      await rm(exit, { force: true })
    },
  }
}

export const DAMAGED = Symbol("damaged")

/** Only the error of a damaged state becomes DAMAGED: a state that cannot be read for another reason may be whole. */
export const damagedOnly = (thrown: unknown): typeof DAMAGED => {
  if (thrown instanceof BerthError && thrown.code === "backend.state_damaged") return DAMAGED
  throw thrown
}

const absent = (thrown: NodeJS.ErrnoException): undefined => {
  if (thrown.code !== "ENOENT") throw thrown
}

const parseState = (text: string, file: string): SandboxState => {
  try {
    return SandboxState.parse(JSON.parse(text))
  } catch (cause) {
    throw new BerthError("backend.state_damaged", "a sandbox's state file cannot be read", {
      details: { file },
      cause,
    })
  }
}
