import { readlinkSync } from "node:fs"
import { join } from "node:path"
import {
  TOOLBOX_MANIFEST,
  type ToolboxFile,
  type ToolboxManifest,
  type ToolboxProblem,
} from "@berth/protocol/toolbox"
import { pathsOf } from "./links.ts"
import { hashFile } from "./read-file.ts"
import { type Walked, walk } from "./walk.ts"
import { DIRECTORY_MODE, FILE_MODE } from "./write-tree.ts"

interface Comparing {
  readonly signal: AbortSignal
  readonly onBytes?: (bytes: number, path: string) => void
}

/** Lists all differences between a tree and its manifest, by reading the whole tree. */
export const compareTree = async (
  tree: string,
  { files }: ToolboxManifest,
  comparing: Comparing,
): Promise<ToolboxProblem[]> => {
  const problems: ToolboxProblem[] = []
  const listed = new Map(files.map((file) => [file.path, file]))
  const directories = new Set([...pathsOf(files)].filter((path) => !listed.has(path)))
  const missing = new Set([TOOLBOX_MANIFEST, ...listed.keys(), ...directories])
  for (const found of await walk(tree, comparing.signal)) {
    const { path } = found
    missing.delete(path)
    const file = listed.get(path)
    if (file !== undefined) problems.push(...(await compareFile(tree, file, found, comparing)))
    else if (directories.has(path)) problems.push(...compareDirectory(found))
    else if (path === TOOLBOX_MANIFEST) problems.push(...compareMode(found, FILE_MODE))
    else problems.push({ path, problem: "added" })
  }
  for (const path of missing) problems.push({ path, problem: "missing" })
  return problems
}

const compareDirectory = (found: Walked): ToolboxProblem[] =>
  found.stats.isDirectory()
    ? compareMode(found, DIRECTORY_MODE)
    : [{ path: found.path, problem: "kind", expected: "directory", found: kindOf(found) }]

const compareFile = async (
  tree: string,
  file: ToolboxFile,
  found: Walked,
  { signal, onBytes }: Comparing,
): Promise<ToolboxProblem[]> => {
  const { path } = file
  const kind = kindOf(found)
  if (kind !== file.kind) return [{ path, problem: "kind", expected: file.kind, found: kind }]
  if (file.kind === "link") {
    const target = readlinkSync(join(tree, path))
    const right = target === file.target
    return right ? [] : [{ path, problem: "target", expected: file.target, found: target }]
  }
  const problems = compareMode(found, Number.parseInt(file.mode, 8))
  const { bytes, sha256 } = await hashFile(join(tree, path), found.stats.size, {
    signal,
    onBytes: (read) => onBytes?.(read, path),
  })
  if (sha256 !== file.sha256) {
    const expected = `${file.bytes} bytes, sha256 ${file.sha256}`
    problems.push({ path, problem: "content", expected, found: `${bytes} bytes, sha256 ${sha256}` })
  }
  return problems
}

const compareMode = ({ path, stats }: Walked, expected: number): ToolboxProblem[] => {
  const problems: ToolboxProblem[] = []
  const [mode, owner] = [Number(stats.mode) & 0o7777, process.geteuid?.()]
  if (mode !== expected)
    problems.push({ path, problem: "mode", expected: octal(expected), found: octal(mode) })
  if (Number(stats.uid) !== owner)
    problems.push({ path, problem: "owner", expected: String(owner), found: String(stats.uid) })
  return problems
}

const octal = (mode: number) => mode.toString(8)

const kindOf = ({ stats }: Walked): string =>
  stats.isFile()
    ? "file"
    : stats.isSymbolicLink()
      ? "link"
      : stats.isDirectory()
        ? "directory"
        : "special"
