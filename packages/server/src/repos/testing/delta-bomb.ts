import { execFileSync } from "node:child_process"
import { createHash } from "node:crypto"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { crc32, deflateSync } from "node:zlib"
import { git, temporaryDirectory } from "./host-repos.ts"

/** The most that one instruction of a delta copies. */
const COPIED = 16 * 1024 ** 2 - 1
const COPY_IT = Buffer.from([0xf0, 0xff, 0xff, 0xff])

const BLOB = 3
const REF_DELTA = 7

/**
 * Makes a repo whose only file is a delta that copies a block of zeros again and again: a pack of kilobytes for as many
 * times 16 MiB. The block itself is in no tree, so that the delta cannot be passed on as it is.
 */
export const makeDeltaBomb = (
  copies: number,
): { readonly path: string; readonly bytes: number } => {
  const path = join(temporaryDirectory(), "bomb")
  git("/", "init", "--quiet", "-b", "main", path)
  const base = Buffer.alloc(COPIED)
  const baseId = sha1(Buffer.concat([Buffer.from(`blob ${base.length}\0`), base]))
  const delta = Buffer.concat([
    ...[varint(base.length), varint(copies * COPIED)],
    ...Array.from({ length: copies }, () => COPY_IT),
  ])
  const bombId = sha1(Buffer.from("bomb"))
  writePack(join(path, ".git/objects/pack"), [
    { id: baseId, raw: Buffer.concat([head(BLOB, base.length), deflateSync(base)]) },
    { id: bombId, raw: Buffer.concat([head(REF_DELTA, delta.length), baseId, deflateSync(delta)]) },
  ])
  const input = `100644 blob ${bombId.toString("hex")}\tbomb\n`
  const tree = execFileSync("git", ["mktree"], { cwd: path, input, encoding: "utf8" }).trim()
  git(path, "update-ref", "refs/heads/main", git(path, "commit-tree", "-m", "bomb", tree))
  return { path, bytes: copies * COPIED }
}

interface Entry {
  readonly id: Buffer
  /** The bytes in the pack. */
  readonly raw: Buffer
}

const writePack = (directory: string, entries: readonly Entry[]): void => {
  let end = 12
  const placed = entries.map(({ id, raw }) => {
    const at = end
    end += raw.length
    return { id, raw, at }
  })
  const start = Buffer.concat([Buffer.from("PACK"), u32(2), u32(entries.length)])
  const body = Buffer.concat([start, ...entries.map(({ raw }) => raw)])
  const sum = sha1(body)
  const sorted = placed.toSorted((one, other) => Buffer.compare(one.id, other.id))
  const counts = Array.from({ length: 256 }, (_, byte) =>
    u32(sorted.filter(({ id }) => (id[0] ?? 0) <= byte).length),
  )
  const index = Buffer.concat([
    ...[Buffer.from([0xff, 0x74, 0x4f, 0x63]), u32(2), ...counts],
    ...sorted.map(({ id }) => id),
    ...sorted.map(({ raw }) => u32(crc32(raw))),
    ...sorted.map(({ at }) => u32(at)),
    sum,
  ])
  const name = join(directory, `pack-${sum.toString("hex")}`)
  writeFileSync(`${name}.pack`, Buffer.concat([body, sum]))
  writeFileSync(`${name}.idx`, Buffer.concat([index, sha1(index)]))
}

const sha1 = (bytes: Buffer): Buffer => createHash("sha1").update(bytes).digest()

const u32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value >>> 0)
  return bytes
}

/** Encodes a number in seven bits a byte, the lowest first. */
const varint = (value: number): Buffer => {
  const bytes: number[] = []
  for (let rest = value; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) return Buffer.from([...bytes, rest])
    bytes.push((rest % 128) | 128)
  }
}

/** Encodes an entry's type and size, of which the first byte has four bits. */
const head = (type: number, size: number): Buffer => {
  const first = (type << 4) | (size % 16)
  const rest = Math.floor(size / 16)
  return rest === 0
    ? Buffer.from([first])
    : Buffer.concat([Buffer.from([first | 128]), varint(rest)])
}
