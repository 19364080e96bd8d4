/*
 * Earlier versions called the shared directory of a sandbox `link`, and had it below `links` in the data directory. The
 * sandboxes that they made run on, and what is noted of them has those words.
 */

/** The place of a shared directory now, by the path that an earlier version noted. */
export const renamedPath = (path: string): string =>
  path.replace(/\/links\/([^/]+\/inside)$/, "/shared/$1")

/** A note in which an earlier version wrote the path of the shared directory as `link`, in the words of this one. */
export const renamedNote = (note: unknown): unknown => {
  if (!isObject(note) || typeof note.link !== "string") return note
  const { link, ...others } = note
  return { ...others, sharedDirectory: renamedPath(link) }
}

/** A sandbox's spec as an earlier version stored it, in the words of this one. */
export const renamedSpec = (spec: unknown): unknown => {
  const renamed = renamedNote(spec)
  if (!isObject(renamed) || !isObject(renamed.config)) return renamed
  const { mounts } = renamed.config
  if (!Array.isArray(mounts)) return renamed
  return { ...renamed, config: { ...renamed.config, mounts: mounts.map(renamedMount) } }
}

const renamedMount = (mount: unknown): unknown =>
  isObject(mount) && mount.kind === "link" ? { ...mount, kind: "shared" } : mount

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)
