import type { Slug } from "@berth/protocol/ids"
import type { Serially } from "../host/serial.ts"
import type { Logger } from "../logging/logger.ts"
import type { FailPoint } from "./fail-point.ts"
import type { WorkspaceFiles } from "./files.ts"
import { type Workspace, type Workspaces, workspaceExists } from "./workspaces.ts"

export interface NewcomersParts {
  readonly workspaces: Workspaces
  readonly files: WorkspaceFiles
  readonly log: Logger
  readonly at: FailPoint
  /** One thing at a time for one workspace. */
  readonly serially: Serially
}

/** Workspaces that begin with files: forks and imports. */
export interface Newcomers {
  /**
   * Makes a workspace whose files the work brings. Nobody sees it before it is complete, and if the work fails, nothing of it
   * is left. Refused if there is one of that name.
   */
  make<Result>(workspace: NewWorkspace, work: () => Promise<Result>): Promise<Result>
  /** Removes what was begun and cut short by a crash, or failed and could not be undone. */
  removeUnfinished(): Promise<void>
}

type NewWorkspace = Pick<Workspace, "spec" | "isBooted">

export const openNewcomers = (parts: NewcomersParts): Newcomers => {
  const { workspaces, files, log, at, serially } = parts
  const underWay = new Set<Slug>()

  /** The files first: as long as there are some, their name is taken. */
  const undo = async (workspace: Slug): Promise<void> => {
    await files.remove(workspace)
    await workspaces.remove(workspace)
  }

  /** The row first, so that no files are there of which it is not known whose they are. */
  const reserveAndMake = async <Result>(
    { spec, isBooted }: NewWorkspace,
    work: () => Promise<Result>,
  ): Promise<Result> => {
    const { slug } = spec
    if (!(await workspaces.reserve(spec, { isBooted }))) throw workspaceExists(slug)
    try {
      await at("newcomer.reserved")
      const result = await work()
      await at("newcomer.filled")
      await workspaces.complete(slug)
      return result
    } catch (thrown) {
      await undo(slug).catch((err: unknown) =>
        log.warn({ op: "workspace.make", workspace: slug, err }, UNDONE_LATER),
      )
      throw thrown
    }
  }

  return {
    make: (workspace, work) => {
      const { slug } = workspace.spec
      return serially(slug, async () => {
        underWay.add(slug)
        try {
          return await reserveAndMake(workspace, work)
        } finally {
          underWay.delete(slug)
        }
      })
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
