import { startProgram } from "../programs.ts"

export interface TreeEntry {
  /** Relative to the tree, each byte one character; the tree itself is "". */
  readonly path: string
  /** One letter, as `find` names them: f, d, l, c, b, p, s. */
  readonly kind: string
  readonly mode: string
  readonly uid: number
  readonly gid: number
  readonly size: number
  /** Seconds with their fraction, as text: it has more digits than a number holds. */
  readonly changed: string
  readonly links: number
  readonly inode: string
  readonly diskBytes: number
  readonly link: string
}

const FIELDS = "%y %m %U %G %s %T@ %n %i %b"
const SECTOR_BYTES = 512

/** Everything in a tree, without following links. `find` does in a tenth of the time what a walk in Node does. */
export async function* walkTree(tree: string, signal?: AbortSignal): AsyncGenerator<TreeEntry> {
  const { stdin, stdout, ended, stop } = startProgram(
    ["find", tree, "-ignore_readdir_race", "-printf", `${FIELDS}\\0%P\\0%l\\0`],
    { signal, on: tree },
  )
  stdin.end()
  let rest = ""
  try {
    for await (const chunk of stdout as AsyncIterable<Buffer>) {
      const parts = (rest + chunk.toString("latin1")).split("\0")
      // The last part is what came of an entry that goes on in the next chunk, perhaps nothing.
      const whole = Math.floor((parts.length - 1) / 3) * 3
      for (let at = 0; at < whole; at += 3) yield entry(parts[at], parts[at + 1], parts[at + 2])
      rest = parts.slice(whole).join("\0")
    }
    await ended
  } finally {
    stop()
  }
}

const entry = (fields = "", path = "", link = ""): TreeEntry => {
  const [kind = "", mode = "", uid, gid, size, changed = "", links, inode = "", sectors] =
    fields.split(" ")
  return {
    path,
    kind,
    mode,
    uid: Number(uid),
    gid: Number(gid),
    size: Number(size),
    changed,
    links: Number(links),
    inode,
    diskBytes: Number(sectors) * SECTOR_BYTES,
    link,
  }
}
