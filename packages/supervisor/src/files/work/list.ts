import { opendir } from "node:fs/promises"
import type { FileEntry, FileList } from "@berth/protocol/files"
import { MAX_LIST_ENTRIES } from "@berth/protocol/files-limits"
import { listQuery, statQuery } from "../../checks/forms/files.ts"
import { sendJson } from "../../features/body.ts"
import type { HttpCall } from "../../features/feature.ts"
import { readQuery } from "../../features/read-query.ts"
import { joinBytes, locate, toWire } from "./bytes.ts"
import { entryAt } from "./entry.ts"
import { attempt, systemCode } from "./failure.ts"

/** `GET /files/stat` */
export const statFile =
  (workspace: string) =>
  async ({ response, query }: HttpCall): Promise<void> => {
    const { path, follow = false } = readQuery(query, statQuery)
    const target = locate(path, workspace)
    sendJson(response, 200, await attempt("stat", path, () => entryAt(target, path, { follow })))
  }

/** `GET /files/list` */
export const listFiles =
  (workspace: string) =>
  async ({ response, query, signal }: HttpCall): Promise<void> => {
    const { path, depth = 1, limit = MAX_LIST_ENTRIES } = readQuery(query, listQuery)
    const root = locate(path, workspace)
    const list = await attempt("list", path, () => listTree(root, { depth, limit, signal }))
    sendJson(response, 200, list)
  }

interface ListLimits {
  readonly depth: number
  readonly limit: number
  readonly signal: AbortSignal
}

interface Listed {
  readonly name: Buffer
  readonly entry: FileEntry
}

/** Lists level by level, so that the limit cuts off the deepest entries. */
const listTree = async (root: Buffer, { depth, limit, signal }: ListLimits): Promise<FileList> => {
  const listed: Listed[] = []
  let level: Buffer[] = [Buffer.alloc(0)]
  for (let deep = 1; deep <= depth && level.length > 0; deep++) {
    const below: Buffer[] = []
    for (const directory of level) {
      signal.throwIfAborted()
      // The first directory must exist; directories below it may be gone, or closed to the user.
      const names = await namesIn(joinPath(root, directory), limit + 1 - listed.length, deep > 1)
      for (const each of names) {
        const name = joinPath(directory, each)
        const entry = await entryAt(joinPath(root, name), toWire(name)).catch(ignoreGone)
        if (entry === undefined) continue
        listed.push({ name, entry })
        if (entry.kind === "directory") below.push(name)
      }
      if (listed.length > limit) return { entries: sorted(listed.slice(0, limit)), cut: true }
    }
    level = below
  }
  return { entries: sorted(listed), cut: false }
}

const joinPath = (directory: Buffer, name: Buffer): Buffer => {
  if (directory.length === 0) return name
  return name.length === 0 ? directory : joinBytes(directory, name)
}

const namesIn = async (path: Buffer, most: number, isBelow: boolean): Promise<Buffer[]> => {
  const names: Buffer[] = []
  try {
    // @types/node knows names as text only.
    const directory = await opendir(path as unknown as string, { encoding: "buffer" as never })
    for await (const { name } of directory) {
      names.push(name as unknown as Buffer)
      if (names.length >= most) break
    }
  } catch (thrown) {
    if (!isBelow || systemCode(thrown) === undefined) throw thrown
  }
  return names
}

const sorted = (listed: readonly Listed[]): FileEntry[] =>
  listed.toSorted((a, b) => Buffer.compare(a.name, b.name)).map(({ entry }) => entry)

const ignoreGone = (thrown: unknown): undefined => {
  if (systemCode(thrown) === undefined) throw thrown
}
