import { readdir, readFile, readlink } from "node:fs/promises"
import type { TopId } from "@berth/protocol/ids"

/**
 * The processes that have a top mounted, as the kernel tells it: one of each mount namespace. A top's id
 * is random, so a namespace that names it in its mounts has it.
 */
export const mountedBy = async (top: TopId): Promise<readonly number[]> => {
  const holders = await Promise.all(
    (await processesByNamespace()).map(async (pids) =>
      (await mountsOf(pids)).includes(top) ? pids[0] : undefined,
    ),
  )
  return holders.filter((pid) => pid !== undefined)
}

/** The processes of each mount namespace. */
const processesByNamespace = async (): Promise<number[][]> => {
  const namespaces = new Map<string, number[]>()
  const names = (await readdir("/proc")).filter((name) => /^\d+$/.test(name))
  await Promise.all(
    names.map(async (name) => {
      const namespace = await readlink(`/proc/${name}/ns/mnt`).catch(() => undefined)
      if (namespace === undefined) return
      namespaces.set(namespace, [...(namespaces.get(namespace) ?? []), Number(name)])
    }),
  )
  return [...namespaces.values()]
}

/** The mounts of a namespace, told by the first of its processes that still lives. */
const mountsOf = async (pids: readonly number[]): Promise<string> => {
  for (const pid of pids) {
    try {
      return await readFile(`/proc/${pid}/mountinfo`, "latin1")
    } catch {
      // It ended while it was looked at.
    }
  }
  return ""
}
