import { readdir, readFile } from "node:fs/promises"
import path from "node:path"

/** Source files and manifests of the project: path from its root → text. */
export type Tree = ReadonlyMap<string, string>

const SOURCE = /\.[cm]?[jt]sx?$/
const LEFT_OUT = new Set(["node_modules", "dist"])

/** Reads every source file and `package.json` in the given folders, and the manifest of the root. */
export async function readTree(root: string, folders: readonly string[]): Promise<Tree> {
  const files = ["package.json"]
  for (const folder of folders) files.push(...(await listFiles(root, folder)))
  return new Map(
    await Promise.all(
      files.map(async (file) => [file, await readFile(path.join(root, file), "utf8")] as const),
    ),
  )
}

export const isSource = (file: string) => SOURCE.test(file)

async function listFiles(root: string, folder: string): Promise<string[]> {
  const entries = await readdir(path.join(root, folder), { withFileTypes: true })
  const found: string[] = []
  for (const entry of entries) {
    const file = `${folder}/${entry.name}`
    if (entry.isDirectory() && !LEFT_OUT.has(entry.name))
      found.push(...(await listFiles(root, file)))
    if (entry.isFile() && (isSource(file) || entry.name === "package.json")) found.push(file)
  }
  return found.sort()
}
