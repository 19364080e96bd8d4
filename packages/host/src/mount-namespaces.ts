import { readdir, readFile, readlink } from "node:fs/promises"
import { bounded } from "@berth/protocol/bounded"

/** The files of /proc that are read at once, for all callers together: each takes a descriptor. */
const READS_AT_ONCE = 32

const inTurn = bounded(READS_AT_ONCE)

/** A mount namespace of this machine: one of its processes, and the text of its mount table. */
export interface MountNamespace {
  readonly pid: number
  readonly mounts: string
}

/** Every mount namespace that has a process, as the kernel tells it now. */
export const mountNamespaces = async (): Promise<MountNamespace[]> => {
  const tables = await Promise.all((await processesByNamespace()).map(readTable))
  return tables.filter((table) => table !== undefined)
}

const processesByNamespace = async (): Promise<number[][]> => {
  const namespaces = new Map<string, number[]>()
  const names = (await readdir("/proc")).filter((name) => /^\d+$/.test(name))
  await Promise.all(
    names.map(async (name) => {
      const namespace = await inTurn(() => readlink(`/proc/${name}/ns/mnt`)).catch(() => undefined)
      if (namespace === undefined) return
      namespaces.set(namespace, [...(namespaces.get(namespace) ?? []), Number(name)])
    }),
  )
  return [...namespaces.values()]
}

/** Reads the mount table of a namespace from the first of its processes that still lives. */
const readTable = async (pids: readonly number[]): Promise<MountNamespace | undefined> => {
  for (const pid of pids) {
    try {
      return { pid, mounts: await inTurn(() => readFile(`/proc/${pid}/mountinfo`, "latin1")) }
    } catch {
      // The process ended while it was looked at.
    }
  }
  return undefined
}
