import type { BootTrace } from "@berth/protocol/boot"
import type { SandboxId, Slug } from "@berth/protocol/ids"
import type { ReconcileReport } from "@berth/protocol/sandboxes"
import type { WorkspaceSpec } from "@berth/protocol/workspace"
import { type GivingUp, openGiveUp } from "./deciding/give-up.ts"
import { reconcile } from "./deciding/reconcile.ts"
import { sharedDirectoryOf } from "./keeping/open.ts"
import { openRequireModel } from "./making/require-model.ts"
import { openValidate } from "./making/validate.ts"
import { type Copies, openCopies } from "./requests/copies.ts"
import { type Describe, openDescribe } from "./requests/describe.ts"
import type { Ensured } from "./requests/ensure.ts"
import { type Live, openLive } from "./requests/live.ts"
import { makeRoom } from "./requests/make-room.ts"
import { type Names, openNames } from "./requests/names.ts"
import { openRequests, type Requests } from "./requests/requests.ts"
import { openUp, type UpOptions } from "./requests/up.ts"
import { openSandboxUse, type SandboxUse } from "./requests/use.ts"
import { openViews, type Views } from "./requests/views.ts"
import { openRooms, type Rooms, type SandboxesParts } from "./rooms.ts"
import { unknownWorkspace } from "./state/unknown.ts"

/**
 * The sandboxes of an installation. They outlive the server that made them, and nobody who uses one is cut off. A
 * request for a workspace's earlier sandbox, by its id, goes to the current one.
 */
export interface Sandboxes
  extends Views,
    Omit<Requests, "stop" | "remove" | "replaceWorkspace">,
    SandboxUse,
    Copies,
    Live {
  readonly names: Names
  /** Stops a sandbox. Returns the one that was stopped. */
  stop(...call: Parameters<Requests["stop"]>): Promise<SandboxId>
  /** Removes a sandbox. Returns the one that was removed. */
  remove(...call: Parameters<Requests["remove"]>): Promise<SandboxId>
  /** Takes up the sandboxes that run already, and reconciles from then on. Called once, before anything else. */
  adopt(signal: AbortSignal): Promise<void>
  /** Gives the current sandbox of a workspace, as it is described here. Resolves when it has started; it boots on. */
  up(workspace: WorkspaceSpec, options: UpOptions, signal: AbortSignal): Promise<Ensured>
  /**
   * Lets a halted sandbox go on for a while, so that a person can delete files in it. All its processes but the
   * supervisor are ended. Fails if it is not halted.
   */
  makeRoom(sandbox: SandboxId): Promise<void>
  /** Describes a workspace; its sandbox is made when it is used. If it is refused, nothing is changed. */
  describe: Describe
  /** Fails if there is no such workspace. */
  workspace(slug: Slug): Promise<WorkspaceSpec>
  /** Ends a sandbox that does not answer to a person, unless others use it or it is halted. Returns why it stays. */
  giveUp(sandbox: SandboxId, givingUp: GivingUp): Promise<string | undefined>
  /** Why a sandbox is halted, if it is, be it for a moment. */
  haltOf(sandbox: SandboxId): string | undefined
  reconcile(options: { dryRun: boolean }): Promise<ReconcileReport>
  trace(sandbox: SandboxId, signal: AbortSignal): Promise<BootTrace>
  /** Closes all connections; the sandboxes run on. */
  close(): Promise<void>
}

export const openSandboxes = async (parts: SandboxesParts): Promise<Sandboxes> => {
  const rooms = await openRooms(parts)
  const calls = openCalls(rooms)
  const { names, views, requests } = calls
  const { rescue, desiredConfigs, guard, keeping, passes, workers } = rooms
  const { current } = names

  return {
    ...calls.uses,
    ...calls.copies,
    ...calls.live,
    names,
    describe: calls.describe,
    up: calls.up,
    list: (signal) => views.list(signal),
    get: async (sandbox, signal) => await views.get(await current(sandbox), signal),
    why: async (sandbox) => {
      const why = await views.why(await current(sandbox))
      if (why.sandbox === sandbox) return why
      return { ...why, earlier: { sandbox, decisions: (await views.why(sandbox)).decisions } }
    },
    trace: async (sandbox, signal) =>
      rooms.bridges.trace(
        await sharedDirectoryOf({ ...rooms, ...keeping }, await current(sandbox)),
        signal,
      ),
    booted: async (sandbox, signal) => await calls.live.booted(await current(sandbox), signal),
    workspace: async (slug) => {
      const found = await rooms.workspaces.get(slug)
      if (found !== undefined) return found.spec
      throw unknownWorkspace(slug)
    },

    hold: (...call) => requests.hold(...call),
    release: async (sandbox, lease) => await requests.release(await current(sandbox), lease),
    recover: async (sandbox) => await requests.recover(await current(sandbox)),
    // Operations that free room have to work on a full disk.
    stop: async (asked, options) => {
      const sandbox = await current(asked)
      await rescue.run(() => requests.stop(sandbox, options))
      return sandbox
    },
    remove: async (asked, options) => {
      const sandbox = await current(asked)
      await rescue.run(() => requests.remove(sandbox, options))
      return sandbox
    },
    removeWorkspace: (workspace) => rescue.run(() => requests.removeWorkspace(workspace)),
    makeRoom: async (asked) => {
      const sandbox = await current(asked)
      await rescue.run(() => makeRoom(rooms, sandbox))
    },

    haltOf: (sandbox) => guard.why(sandbox),
    giveUp: openGiveUp({ ...rooms, haltOf: (sandbox) => guard.why(sandbox), wake: workers.wake }),
    reconcile: async ({ dryRun }) => {
      await desiredConfigs.prepare()
      desiredConfigs.refresh()
      return await reconcile(rooms, { dryRun })
    },
    adopt: (signal) => passes.start(signal),
    close: rooms.close,
  }
}

/** The calls of people and programs, one subject each. */
const openCalls = (rooms: Rooms) => {
  const { keeping, workers, ensure, guard, pressure } = rooms
  const { connections } = keeping
  const { wake } = workers
  const held = (sandbox: SandboxId) => guard.held(sandbox)
  const parts = { ...rooms, ...keeping, ...rooms.files, wake, held }
  const live = openLive(parts)
  const views = openViews(parts)
  const uses = openSandboxUse({
    ...parts,
    sharedDirectoryOf: (sandbox) => sharedDirectoryOf(parts, sandbox),
    booted: live.booted,
    bootOf: (sandbox) => connections.get(sandbox)?.boot,
  })
  const names = openNames({
    ...rooms,
    start: async (workspace, signal) => {
      const ensured = await ensure(workspace, { mode: "fresh", isRequested: false }, signal)
      if (ensured.made) await live.booted(ensured.sandbox, signal)
      return ensured.sandbox
    },
  })
  const requests = openRequests({
    ...parts,
    lease: uses.lease,
    closeSessions: rooms.events.closeSessions,
    bootOf: async (sandbox) => (await views.get(sandbox, rooms.over)).boot,
  })
  const describe = openDescribe({
    ...parts,
    validate: openValidate({ ...parts, networks: rooms.description.networks }),
    requireModel: openRequireModel(parts),
    replaceWorkspace: (spec) => requests.replaceWorkspace(spec),
  })
  return {
    live,
    views,
    uses,
    names,
    requests,
    describe,
    up: openUp({ ...parts, describe, admit: pressure.admit }),
    copies: openCopies({
      ...parts,
      names,
      admit: pressure.admit,
      removeWorkspace: (workspace) => requests.removeWorkspace(workspace),
    }),
  }
}
