import type { Serially } from "@berth/host/serial"
import type { Slug } from "@berth/protocol/ids"
import type { Logger } from "../../logging/logger.ts"
import type { Rescue } from "../disk/rescue.ts"
import type { FailPoint } from "../state/fail-point.ts"
import { workspaceExists } from "../state/saved-workspaces.ts"
import type { Workspace } from "../state/workspace.ts"
import type { Workspaces } from "../state/workspaces.ts"
import type { WorkspaceFiles } from "./files.ts"

export interface NewcomersParts {
  readonly workspaces: Workspaces
  readonly files: Pick<WorkspaceFiles, "remove">
  /** Refuses a name that has files or a sandbox already, of a workspace that the store does not know. */
  readonly assertUnused: (workspace: Slug) => Promise<void>
  readonly rescue: Pick<Rescue, "run">
  readonly log: Logger
  readonly at: FailPoint
  /** Runs one operation at a time for each workspace. */
  readonly serially: Serially
}

/** Workspaces that begin with files: forks and imports. */
export interface Newcomers {
  /**
   * Makes a workspace whose files `work` brings. Nobody sees it before it is complete, and if the work fails, nothing
   * of it is left. Refused if there is one of that name, or one is being made.
   */
  make<Result>(workspace: NewWorkspace, work: () => Promise<Result>): Promise<Result>
  /** Removes workspaces that a crash cut short, or that failed and could not be undone. */
  removeUnfinished(): Promise<void>
}

type NewWorkspace = Pick<Workspace, "spec" | "isBooted">

export const openNewcomers = (parts: NewcomersParts): Newcomers => {
  const { workspaces, files, rescue, log, at, serially } = parts
  const underWay = new Set<Slug>()

  /**
   * Removes the files first: while there are any, their name is taken. All of them are the newcomer's: it began without
   * any.
   */
  const undo = async (workspace: Slug): Promise<void> => {
    await files.remove(workspace)
    await workspaces.remove(workspace)
  }

  /** Writes the row first, so that no files exist without a known owner. */
  const reserveAndMake = async <Result>(
    { spec, isBooted }: NewWorkspace,
    work: () => Promise<Result>,
  ): Promise<Result> => {
    const { slug } = spec
    if ((await workspaces.slugs()).includes(slug)) throw workspaceExists(slug)
    await parts.assertUnused(slug)
    if (!(await workspaces.reserve(spec, { isBooted }))) throw workspaceExists(slug)
    try {
      await at("newcomer.reserved")
      const result = await work()
      await at("newcomer.filled")
      await workspaces.complete(slug)
      return result
    } catch (thrown) {
      await rescue
        .run(() => undo(slug))
        .catch((err: unknown) =>
          log.warn({ op: "workspace.make", workspace: slug, err }, UNDONE_LATER),
        )
      throw thrown
    }
  }

  return {
    make: async (workspace, work) => {
      const { slug } = workspace.spec
      // A second request is refused at once instead of waiting for the whole upload of the first.
      if (underWay.has(slug)) throw workspaceExists(slug)
      underWay.add(slug)
      try {
        return await serially(slug, () => reserveAndMake(workspace, work))
      } finally {
        underWay.delete(slug)
      }
    },
    removeUnfinished: async () => {
      for (const slug of await workspaces.reserved()) {
        if (underWay.has(slug)) continue
        await serially(slug, () => undo(slug))
        log.warn({ op: "workspace.make", workspace: slug }, CUT_SHORT)
      }
    },
  }
}

const UNDONE_LATER =
  "the files of a fork or an import that failed could not be removed; they are tried again in a minute"

const CUT_SHORT = "a fork or an import was cut short; its files are removed"
