import { lstat, realpath, stat } from "node:fs/promises"
import { join, sep } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import type { HooksSpec } from "@berth/protocol/workspace"
import type { BootContext } from "../context.ts"

export type HookName = keyof HooksSpec

export interface HookFile {
  /** Path in the repo, for messages. */
  readonly path: string
  readonly file: string
  readonly repo: string
  readonly isProgram: boolean
}

export interface NoHook {
  readonly missing: string
  /** Whether the workspace names a path of its own for the hook. */
  readonly wasNamed: boolean
}

/** Default paths of a repo's hooks, and the paths of hooks made for another tool. */
const USUAL = { setup: ".berth/setup.sh", start: ".berth/start.sh" }
const ALTERNATIVE = { setup: ".openinspect/setup.sh", start: ".openinspect/start.sh" }

/**
 * Finds a hook in the first repo, and refuses a path that is no file of that repo. That is only for a clear error: the
 * hook runs as the user, so exchanging it after the check gains nothing.
 */
export const findHook = async (
  name: HookName,
  { plan, places }: Pick<BootContext, "plan" | "places">,
): Promise<HookFile | NoHook> => {
  const [first] = plan.repos
  if (first === undefined)
    return { missing: "there is no repo that it could be in", wasNamed: false }
  const repo = join(places.workspace, first.directory)
  const named = plan.hooks[name]
  const wasNamed = named !== USUAL[name]
  for (const path of wasNamed ? [named] : [named, ALTERNATIVE[name]])
    if (await exists(join(repo, path))) return await hookAt(repo, path)
  return { missing: `there is no ${named} in ${first.directory}`, wasNamed }
}

const hookAt = async (repo: string, path: string): Promise<HookFile> => {
  const file = join(repo, path)
  const [home, real] = await Promise.all([realpath(repo), realpath(file)]).catch((cause) => {
    throw refused(path, "it is a link that leads nowhere", cause)
  })
  if (!real.startsWith(home + sep)) throw refused(path, "it is a link that leads out of the repo")
  const found = await stat(real)
  if (!found.isFile()) throw refused(path, "it is not a file")
  return { path, file, repo, isProgram: (found.mode & 0o111) !== 0 }
}

const exists = async (file: string): Promise<boolean> => {
  try {
    await lstat(file)
    return true
  } catch (thrown) {
    const { code } = thrown as NodeJS.ErrnoException
    if (code === "ENOENT" || code === "ENOTDIR") return false
    throw refused(file, "it cannot be looked at", thrown)
  }
}

const refused = (path: string, why: string, cause?: unknown): BerthError =>
  new BerthError("hook.refused", `${path} is no hook: ${why}`, { details: { path, why }, cause })
