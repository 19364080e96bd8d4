import { readFileSync } from "node:fs"
import { isWithin } from "../../within.ts"
import type { Bind } from "./prepared.ts"

export interface MountedAt {
  readonly path: string
  readonly type: string
}

/** Every mount of this process's namespace. */
export const readMountTable = (): readonly MountedAt[] =>
  parseMountTable(readFileSync("/proc/self/mountinfo", "utf8"))

/** Parses lines such as `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw`, with \040 for a space. */
export const parseMountTable = (text: string): readonly MountedAt[] =>
  text.split("\n").flatMap((line) => {
    const [before = "", after = ""] = line.split(" - ")
    const path = before.split(" ")[4]
    const type = after.split(" ")[0]
    return path && type ? [{ path: decode(path), type }] : []
  })

const decode = (path: string) =>
  path.replace(/\\([0-7]{3})/g, (_, octal: string) =>
    String.fromCharCode(Number.parseInt(octal, 8)),
  )

/**
 * Adds a bind for each mount below a bind's source: crun leaves these out of a recursive bind in a user namespace, and
 * runc does not bind without them.
 */
export const withSubmounts = (
  binds: readonly Bind[],
  table: readonly MountedAt[] = readMountTable(),
): Bind[] =>
  binds.flatMap((bind) => [
    bind,
    ...table
      .filter(({ path }) => path !== bind.source && isWithin(path, bind.source))
      .map(({ path }) => ({
        ...bind,
        source: path,
        target: bind.target + rest(path, bind.source),
      })),
  ])

const rest = (path: string, source: string) => path.slice(source === "/" ? 0 : source.length)
