import { tarOutput } from "../archive/tar-output.ts"
import { XATTR } from "../archive/xattrs.ts"
import { startProgram } from "../programs.ts"

export interface Marked {
  readonly path: string
  readonly marks: string
}

/** What an overlay writes on directories, of either flavour, that decides which files of lower layers show. */
const DECISIVE = /^(?:trusted|user)\.overlay\.(?:opaque|redirect)$/

/**
 * The overlay's marks on directories. Node cannot read extended attributes; tar can, and writes nothing of a
 * directory but its header.
 */
export async function* overlayMarks(
  tree: string,
  directories: readonly string[],
  signal?: AbortSignal,
): AsyncGenerator<Marked> {
  const below = directories.filter((path) => path !== "")
  if (below.length === 0) return
  const command = ["tar", "-c", "--format=pax", "--xattrs", "--xattrs-include=*"] as const
  const program = startProgram([...command, "--no-recursion", "--null", "-T", "-", "-f", "-"], {
    signal,
    on: tree,
    cwd: tree,
  })
  program.stdin.end(Buffer.from(below.map((path) => `./${path}\0`).join(""), "latin1"))
  for await (const { path, pax } of tarOutput(program)) {
    const marks = [...pax]
      .filter(([key]) => key.startsWith(XATTR) && DECISIVE.test(key.slice(XATTR.length)))
      .map(([key, value]) => `${key}=${value.toString("latin1")}`)
    if (marks.length > 0) yield { path, marks: marks.sort().join("\0") }
  }
}
