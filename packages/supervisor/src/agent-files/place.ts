import type { AgentFile } from "../agents/agent.ts"
import { checkStage } from "./check-stage.ts"
import { type CopyParts, copyAll, removeLeftovers } from "./copy.ts"
import { fingerprint } from "./fingerprint.ts"
import { type LinkParts, linkAll } from "./link.ts"
import { lookAt, type Roots, type Sight, type Standing } from "./look.ts"

/** The result, as lists of the files' paths below the home. */
export interface Placement {
  readonly linked: readonly string[]
  readonly copied: readonly string[]
  /** Files that were there already, as wanted. */
  readonly present: readonly string[]
  /** The files in `linked` and `copied` that replaced something older of ours. */
  readonly replaced: readonly string[]
  /** The user's own files, which are left as they are, with the reason. */
  readonly kept: readonly { readonly to: string; readonly reason: string }[]
  /** Files beside which leftovers of an earlier boot were removed. */
  readonly cleaned: readonly string[]
  /** Why links could not be made; undefined if they could, or none was needed. */
  readonly linkingFailed: string | undefined
}

/**
 * Places an agent's files: by links into the toolbox, or by copies if the file system has no links. It begins by
 * looking at what is there, so it finishes what an interrupted boot began.
 */
export const placeAgentFiles = async (
  files: readonly AgentFile[],
  roots: Roots,
  parts: CopyParts & LinkParts,
  signal: AbortSignal,
): Promise<Placement> => {
  await checkStage(files, roots.toolbox)
  const { user } = parts
  const sights = await Promise.all(files.map((file) => lookAt(file, roots, { user, signal })))
  const those = (...standings: Standing[]) =>
    sights.filter(({ standing }) => standings.includes(standing))
  const cleaned = sights.filter(({ leftovers }) => leftovers.length > 0)
  const leftovers = cleaned.flatMap((sight) => sight.leftovers)
  if (leftovers.length > 0) await removeLeftovers(leftovers, parts, signal)
  const toLink = those("absent", "stale-link")
  const linking = linkAll(toLink, roots, parts)
  const toCopy = linking.done ? those("stale-copy") : those("absent", "stale-link", "stale-copy")
  if (toCopy.length > 0) await copy(toCopy, parts, signal)
  return {
    linked: linking.done ? names(toLink) : [],
    copied: names(toCopy),
    present: names(those("linked", "copied")),
    replaced: names(those("stale-link", "stale-copy")),
    kept: those("own").map(({ file, reason }) => ({ to: file.to, reason })),
    cleaned: names(cleaned),
    linkingFailed: linking.done ? undefined : linking.said,
  }
}

const names = (sights: readonly Sight[]): string[] => sights.map(({ file }) => file.to)

const copy = async (
  sights: readonly Sight[],
  parts: CopyParts,
  signal: AbortSignal,
): Promise<void> => {
  const wanted = sights.map(async ({ source, place, standing }) => {
    const print = await fingerprint(source, { followLinks: true, signal })
    const replaces = standing !== "absent"
    return { source, place, replaces, fingerprint: print?.hash ?? "" }
  })
  await copyAll(await Promise.all(wanted), parts, signal)
}
