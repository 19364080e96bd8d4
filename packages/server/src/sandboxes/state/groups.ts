import { readdir, readFile } from "node:fs/promises"
import { join } from "node:path"
import { findGroups, type Group, pidsOf } from "@berth/host/halt"
import { SandboxId } from "@berth/protocol/ids"
import { z } from "zod"

/** The processes of one sandbox. */
export interface OwnedGroup extends Group {
  readonly sandbox: SandboxId
}

/** The cgroups of these sandboxes. No engine is asked, and so it is the same for all backends. */
export const groupsOf = async (
  dataDir: string,
  sandboxes: ReadonlySet<SandboxId>,
): Promise<OwnedGroup[]> => {
  const names = await namesOf(dataDir)
  const own = [...names].flatMap(([name, of]) => (sandboxes.has(of) ? [name] : []))
  const groups = await findGroups(new Set(own))
  return groups.map((group) => ({ ...group, sandbox: names.get(group.name) as SandboxId }))
}

/** The processes of these sandboxes that this host has: a sandbox of an engine elsewhere has none here. */
export const processesOf = async (
  dataDir: string,
  sandboxes: ReadonlySet<SandboxId>,
): Promise<ReadonlyMap<SandboxId, number[]>> => {
  const pids = new Map<SandboxId, number[]>()
  for (const group of await groupsOf(dataDir, sandboxes))
    pids.set(group.sandbox, [...(pids.get(group.sandbox) ?? []), ...(await pidsOf(group))])
  return pids
}

/** Finds how the processes of a sandbox are listed; undefined: this host does not have them. */
export type ListerOf = (sandbox: SandboxId) => Promise<(() => Promise<number[]>) | undefined>

export const openListerOf =
  (dataDir: string): ListerOf =>
  async (sandbox) => {
    const groups = await groupsOf(dataDir, new Set([sandbox]))
    if (groups.length === 0) return undefined
    return async () => (await Promise.all(groups.map(pidsOf))).flat()
  }

/** The note that a backend leaves beside the sandbox's files: the engine's name for the sandbox. */
const Note = z.object({ engineId: z.string() })

/** The names of the cgroups of this installation's sandboxes, with the sandbox of each. */
export const namesOf = async (dataDir: string): Promise<Map<string, SandboxId>> => {
  const names = new Map<string, SandboxId>()
  for (const backend of await namesIn(dataDir)) {
    const root = join(dataDir, backend, "sandboxes")
    for (const name of await namesIn(root)) {
      const sandbox = SandboxId.safeParse(name)
      if (!sandbox.success) continue
      names.set(sandbox.data, sandbox.data)
      const engineId = await engineIdOf(join(root, name, "note"))
      if (engineId !== undefined) names.set(engineId, sandbox.data)
    }
  }
  return names
}

const engineIdOf = async (note: string): Promise<string | undefined> => {
  try {
    return Note.parse(JSON.parse(await readFile(note, "utf8"))).engineId
  } catch {
    return undefined
  }
}

const namesIn = (directory: string): Promise<string[]> => readdir(directory).catch(() => [])
