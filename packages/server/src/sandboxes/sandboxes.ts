import type { BootTrace } from "@berth/protocol/boot"
import type { SandboxId, Slug } from "@berth/protocol/ids"
import type { ReconcileReport } from "@berth/protocol/sandboxes"
import type { WorkspaceSpec } from "@berth/protocol/workspace"
import { reconcile } from "./deciding/reconcile.ts"
import { sharedDirectoryOf } from "./keeping/open.ts"
import { openRequireModel } from "./making/require-model.ts"
import { openValidate } from "./making/validate.ts"
import { type Copies, openCopies } from "./requests/copies.ts"
import type { Ensured } from "./requests/ensure.ts"
import { makeRoom } from "./requests/make-room.ts"
import { type Names, openNames } from "./requests/names.ts"
import { openRequests, type Requests } from "./requests/requests.ts"
import { openRunning, type RunningSandboxes } from "./requests/running.ts"
import { openSaveWorkspace, type SaveWorkspace } from "./requests/save-workspace.ts"
import { openUp, type UpOptions } from "./requests/up.ts"
import { openSandboxUse, type SandboxUse } from "./requests/use.ts"
import { openViews, type Views } from "./requests/views.ts"
import { openRooms, type Rooms, type SandboxesParts } from "./rooms.ts"
import { unknownWorkspace } from "./state/unknown.ts"

/** Views of sandboxes and of their boots, as the API shows them. The id of an earlier sandbox leads to the current one. */
export interface SandboxViews extends Views {
  trace(sandbox: SandboxId, signal: AbortSignal): Promise<BootTrace>
}

/** The requests that people make about sandboxes. */
export interface SandboxRequests extends Pick<Requests, "hold" | "release" | "recover"> {
  /** Stops a sandbox. Returns the one that was stopped. */
  stop(...call: Parameters<Requests["stop"]>): Promise<SandboxId>
  /** Removes a sandbox. Returns the one that was removed. */
  remove(...call: Parameters<Requests["remove"]>): Promise<SandboxId>
  /**
   * Lets a halted sandbox go on for a while, so that a person can delete files in it. All its processes but the
   * supervisor are ended. Fails if it is not halted.
   */
  makeRoom(sandbox: SandboxId): Promise<void>
}

/** The workspaces, and the sandbox that each has. */
export interface SandboxWorkspaces {
  /** Fails if there is no such workspace. */
  get(slug: Slug): Promise<WorkspaceSpec>
  /** Saves a workspace as it is described; its sandbox is made when it is used. If it is refused, nothing is changed. */
  readonly save: SaveWorkspace
  /** Gives the current sandbox of a workspace, as it is described here. Resolves when it has started; it boots on. */
  up(workspace: WorkspaceSpec, options: UpOptions, signal: AbortSignal): Promise<Ensured>
  /** Removes a workspace that has no sandbox. */
  remove(slug: Slug): Promise<void>
}

/**
 * The sandboxes of an installation, by subject. They outlive the server that made them, and nobody who uses one is cut
 * off. A request for a workspace's earlier sandbox, by its id, goes to the current one.
 */
export interface Sandboxes {
  readonly names: Names
  readonly views: SandboxViews
  readonly requests: SandboxRequests
  readonly workspaces: SandboxWorkspaces
  readonly copies: Copies
  readonly use: SandboxUse
  readonly running: RunningSandboxes
  /** Takes up the sandboxes that run already, and reconciles from then on. Called once, before anything else. */
  adopt(signal: AbortSignal): Promise<void>
  reconcile(options: { dryRun: boolean }): Promise<ReconcileReport>
  /** Closes all connections; the sandboxes run on. */
  close(): Promise<void>
}

/** The sandboxes as sessions use them: by leases, and by their connections. */
export type UsedSandboxes = SandboxUse & RunningSandboxes

export const openSandboxes = async (parts: SandboxesParts): Promise<Sandboxes> => {
  const rooms = await openRooms(parts)
  const calls = openCalls(rooms)
  return {
    names: calls.names,
    views: currentViews(rooms, calls),
    requests: currentRequests(rooms, calls),
    workspaces: openWorkspaceCalls(rooms, calls),
    copies: calls.copies,
    use: calls.use,
    running: currentRunning(calls),
    adopt: (signal) => rooms.passes.start(signal),
    reconcile: async ({ dryRun }) => {
      await rooms.desiredConfigs.prepare()
      rooms.desiredConfigs.refresh()
      return await reconcile(rooms, { dryRun })
    },
    close: rooms.close,
  }
}

type Calls = ReturnType<typeof openCalls>

/** The views of the sandboxes that ids lead to. */
const currentViews = (rooms: Rooms, { names: { current }, views }: Calls): SandboxViews => ({
  list: (signal) => views.list(signal),
  get: async (sandbox, signal) => await views.get(await current(sandbox), signal),
  why: async (sandbox) => {
    const why = await views.why(await current(sandbox))
    if (why.sandbox === sandbox) return why
    return { ...why, earlier: { sandbox, decisions: (await views.why(sandbox)).decisions } }
  },
  trace: async (sandbox, signal) => {
    const shared = await sharedDirectoryOf({ ...rooms, ...rooms.keeping }, await current(sandbox))
    return await rooms.bridges.trace(shared, signal)
  },
})

/** The requests about the sandboxes that ids lead to. Operations that free room have to work on a full disk. */
const currentRequests = (
  rooms: Rooms,
  { names: { current }, requests }: Calls,
): SandboxRequests => ({
  hold: (...call) => requests.hold(...call),
  release: async (sandbox, lease) => await requests.release(await current(sandbox), lease),
  recover: async (sandbox) => await requests.recover(await current(sandbox)),
  stop: async (asked, options) => {
    const sandbox = await current(asked)
    await rooms.rescue.run(() => requests.stop(sandbox, options))
    return sandbox
  },
  remove: async (asked, options) => {
    const sandbox = await current(asked)
    await rooms.rescue.run(() => requests.remove(sandbox, options))
    return sandbox
  },
  makeRoom: async (asked) => {
    const sandbox = await current(asked)
    await rooms.rescue.run(() => makeRoom(rooms, sandbox))
  },
})

const openWorkspaceCalls = (rooms: Rooms, { requests, save, up }: Calls): SandboxWorkspaces => ({
  get: async (slug) => {
    const found = await rooms.workspaces.get(slug)
    if (found !== undefined) return found.spec
    throw unknownWorkspace(slug)
  },
  save,
  up,
  remove: (slug) => rooms.rescue.run(() => requests.removeWorkspace(slug)),
})

const currentRunning = ({ names: { current }, running }: Calls): RunningSandboxes => ({
  ...running,
  booted: async (sandbox, signal) => await running.booted(await current(sandbox), signal),
})

/** The calls of people and programs, for exactly the sandboxes that they name. */
const openCalls = (rooms: Rooms) => {
  const { keeping, workers, ensure, guard, pressure } = rooms
  const { connections } = keeping
  const parts = {
    ...rooms,
    ...keeping,
    ...rooms.files,
    wake: workers.wake,
    held: (sandbox: SandboxId) => guard.held(sandbox),
    haltOf: (sandbox: SandboxId) => guard.why(sandbox),
  }
  const running = openRunning(parts)
  const views = openViews(parts)
  const use = openSandboxUse({
    ...parts,
    sharedDirectoryOf: (sandbox) => sharedDirectoryOf(parts, sandbox),
    booted: running.booted,
    bootOf: (sandbox) => connections.get(sandbox)?.boot,
  })
  const names = openNames({
    ...rooms,
    start: async (workspace, signal) => {
      const ensured = await ensure(workspace, { mode: "fresh", isRequested: false }, signal)
      if (ensured.made) await running.booted(ensured.sandbox, signal)
      return ensured.sandbox
    },
  })
  const requests = openRequests({
    ...parts,
    lease: use.lease,
    closeSessions: rooms.events.closeSessions,
    bootOf: async (sandbox) => (await views.get(sandbox, rooms.over)).boot,
  })
  const save = openSaveWorkspace({
    ...parts,
    validate: openValidate({ ...parts, networks: rooms.description.networks }),
    requireModel: openRequireModel(parts),
    replaceWorkspace: (spec) => requests.replaceWorkspace(spec),
  })
  return {
    running,
    views,
    use,
    names,
    requests,
    save,
    up: openUp({ ...parts, save, admit: pressure.admit }),
    copies: openCopies({
      ...parts,
      names,
      admit: pressure.admit,
      removeWorkspace: (workspace) => requests.removeWorkspace(workspace),
    }),
  }
}
