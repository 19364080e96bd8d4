import { type BigIntStats, lstatSync, readlinkSync } from "node:fs"
import { join, posix } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import { TOOLBOX_MANIFEST } from "@berth/protocol/toolbox"
import type { InputPart, ToolboxInput } from "./inputs/input.ts"
import { pathsOf, staysInside } from "./links.ts"
import { byPath, parentsOf, walk } from "./walk.ts"

/** A file or link of the planned tree, and its source. */
export type Planned = {
  /** The name of the entry that the file belongs to. */
  readonly entry: string
  readonly path: string
} & (
  | {
      readonly kind: "file"
      readonly from: string
      readonly stats: BigIntStats
      readonly executable: boolean
    }
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "link"; readonly target: string }
)

/** Plans all files of the tree, by path. An input that is missing, empty or cannot be copied is refused by name. */
export const planTree = async (
  inputs: readonly ToolboxInput[],
  signal: AbortSignal,
): Promise<Planned[]> => {
  const planned: Planned[] = []
  for (const input of inputs) {
    const files: Planned[] = []
    for (const part of input.parts) files.push(...(await planPart(input.name, part, signal)))
    requireMain(input, files)
    planned.push(...files)
  }
  planned.sort(byPath)
  refuseCollisions(planned)
  refuseLinksOutside(planned)
  return planned
}

export const sizeOf = (planned: Planned): number =>
  planned.kind === "file"
    ? Number(planned.stats.size)
    : planned.kind === "text"
      ? Buffer.byteLength(planned.text)
      : 0

const planPart = async (
  entry: string,
  part: InputPart,
  signal: AbortSignal,
): Promise<Planned[]> => {
  switch (part.kind) {
    case "text":
      return [{ entry, path: part.to, kind: "text", text: part.text }]
    case "link":
      return [{ entry, path: part.to, kind: "link", target: part.target }]
    case "file":
      return [planFile(entry, part)]
    case "tree":
      return await planDirectory(entry, part, signal)
  }
}

const planFile = (entry: string, { from, to }: { from: string; to: string }): Planned => {
  const stats = look(entry, from)
  if (!stats.isFile()) throw refused(entry, from, "is not a file")
  if (stats.size === 0n) throw missing(entry, from, "is empty")
  return plainFile(entry, from, to, stats)
}

const planDirectory = async (
  entry: string,
  { from, to, without = [] }: Extract<InputPart, { kind: "tree" }>,
  signal: AbortSignal,
): Promise<Planned[]> => {
  if (!look(entry, from).isDirectory()) throw refused(entry, from, "is not a directory")
  const planned: Planned[] = []
  for (const { path, stats } of await walk(from, signal, without)) {
    const [source, target] = [join(from, path), `${to}/${path}`]
    if (stats.isFile()) planned.push(plainFile(entry, source, target, stats))
    else if (stats.isSymbolicLink())
      planned.push({ entry, path: target, kind: "link", target: readlinkSync(source) })
    else if (!stats.isDirectory()) throw refused(entry, source, "is neither a file nor a link")
  }
  if (!planned.some((each) => sizeOf(each) > 0)) throw missing(entry, from, "is empty")
  return planned
}

const plainFile = (entry: string, from: string, path: string, stats: BigIntStats): Planned => ({
  entry,
  path,
  kind: "file",
  from,
  stats,
  executable: (stats.mode & 0o111n) !== 0n,
})

const look = (entry: string, path: string): BigIntStats => {
  try {
    return lstatSync(path, { bigint: true })
  } catch (cause) {
    throw missing(entry, path, "is missing", cause)
  }
}

const requireMain = ({ name, main }: ToolboxInput, files: readonly Planned[]): void => {
  const found = files.find(({ path }) => path === main)
  if (found === undefined) throw missing(name, main, "is missing")
  if (sizeOf(found) === 0) throw missing(name, main, "is empty")
}

const refuseCollisions = (planned: readonly Planned[]): void => {
  const taken = new Set([TOOLBOX_MANIFEST])
  for (const { entry, path } of planned) {
    if (posix.normalize(path) !== path || path.startsWith("../") || posix.isAbsolute(path))
      throw refused(entry, path, "leads out of the tree")
    if (taken.has(path)) throw refused(entry, path, "is there twice")
    taken.add(path)
  }
  for (const { entry, path } of planned) {
    const file = parentsOf(path).find((parent) => taken.has(parent))
    if (file !== undefined) throw refused(entry, path, `lies in ${file}, which is no directory`)
  }
}

const refuseLinksOutside = (planned: readonly Planned[]): void => {
  const paths = pathsOf(planned)
  for (const each of planned) {
    if (each.kind === "link" && !staysInside(each, paths))
      throw refused(each.entry, each.path, `leads to ${each.target}, which is not in the tree`)
  }
}

const missing = (entry: string, path: string, how: string, cause?: unknown) =>
  new BerthError("toolbox.input_missing", `the toolbox needs ${entry}, and ${path} ${how}`, {
    details: { entry, path },
    cause,
  })

const refused = (entry: string, path: string, why: string) =>
  new BerthError("toolbox.input_refused", `the toolbox cannot carry ${entry}: ${path} ${why}`, {
    details: { entry, path },
  })
