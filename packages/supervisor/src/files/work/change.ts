import { chmod, link, lstat, mkdir, rename, rmdir, unlink } from "node:fs/promises"
import { BerthError } from "@berth/protocol/errors"
import * as forms from "../../checks/forms/files.ts"
import { readJson, sendJson } from "../../features/body.ts"
import type { HttpCall } from "../../features/feature.ts"
import { readQuery } from "../../features/read-query.ts"
import { locate, splitPath } from "./bytes.ts"
import { copyTree } from "./copy-tree.ts"
import { entryAt } from "./entry.ts"
import { attempt, systemCode } from "./failure.ts"
import type { Parts } from "./parts.ts"
import { removeInTime, removeTree } from "./remove-tree.ts"
import type { Places } from "./write.ts"

/** `POST /files/mkdir` */
export const makeDirectory =
  (workspace: string) =>
  async ({ request, response }: HttpCall): Promise<void> => {
    const { path, mode, parents = false } = await readJson(request, forms.makeDirectory)
    const target = locate(path, workspace)
    const entry = await attempt("make", path, async () => {
      const made = await mkdir(target, { recursive: parents })
      // A directory that existed keeps its mode. The mode is set by chmod, since the umask would remove bits from
      // mkdir's.
      if (mode !== undefined && (!parents || made !== undefined)) await chmod(target, mode)
      return await entryAt(target, path)
    })
    sendJson(response, 201, entry)
  }

/** `POST /files/move` */
export const moveFile =
  ({ workspace, parts }: Places) =>
  async ({ request, response, signal }: HttpCall): Promise<void> => {
    const { from, to, replace = false } = await readJson(request, forms.moveFile)
    const [source, target] = [locate(from, workspace), locate(to, workspace)]
    await attempt("move", from, () => lstat(source))
    const entry = await attempt("move", to, async () => {
      await move(source, target, replace).catch(async (thrown) => {
        if (systemCode(thrown) !== "EXDEV") throw thrown
        await moveAcross(source, target, { replace, parts, signal })
      })
      return await entryAt(target, to)
    })
    sendJson(response, 200, entry)
  }

/**
 * Moves within a file system. Without `replace`, a file gets its new name by a link, which never overwrites. A
 * directory cannot be linked, but the kernel renames it only to a free name or onto an empty directory.
 */
const move = async (source: Buffer, target: Buffer, replace: boolean): Promise<void> => {
  const isDirectory = (await lstat(source)).isDirectory()
  if (replace) return await rename(source, target)
  if (isDirectory) {
    await mkdir(target)
    return await rename(source, target).catch(async (thrown) => {
      await rmdir(target).catch(() => {})
      throw thrown
    })
  }
  await link(source, target)
  await unlink(source)
}

/** Moves to another file system: the copy is made aside there and takes its place whole, then the source is removed. */
const moveAcross = async (
  source: Buffer,
  target: Buffer,
  { replace, parts, signal }: { replace: boolean; parts: Parts; signal: AbortSignal },
): Promise<void> => {
  const aside = await parts.nameIn(splitPath(target).directory)
  try {
    await copyTree(source, aside, signal)
    await move(aside, target, replace)
  } catch (thrown) {
    await removeAny(aside, NEVER).catch(() => {})
    throw thrown
  }
  await removeAny(source, signal)
}

/** Used to remove what was made, even if the client has gone away meanwhile. */
const NEVER = new AbortController().signal

const removeAny = async (path: Buffer, signal: AbortSignal): Promise<void> => {
  if ((await lstat(path)).isDirectory()) await removeTree(path, signal)
  else await unlink(path)
}

/** `DELETE /files` */
export const removeFile =
  (workspace: string) =>
  async ({ response, query, signal }: HttpCall): Promise<void> => {
    const { path, recursive = false } = readQuery(query, forms.removeQuery)
    const target = locate(path, workspace)
    const [found, top] = await attempt("remove", path, () =>
      Promise.all([lstat(target), lstat(workspace)]),
    )
    if (found.ino === top.ino && found.dev === top.dev)
      throw new BerthError("input.invalid", "the workspace itself is not removed")
    if (found.isDirectory() && !recursive) {
      await attempt("remove", path, () => rmdir(target))
    } else if (found.isDirectory()) {
      await attempt("remove", path, () => removeInTime(target, signal))
    } else await attempt("remove", path, () => unlink(target))
    response.writeHead(204).end()
  }
