import { readFile } from "node:fs/promises"

/** A socket that accepts TCP connections. */
export interface Listening {
  readonly port: number
  readonly address: string
  /** The socket's inode, to which its owners' descriptors link. */
  readonly inode: string
}

const TABLES = ["/proc/self/net/tcp", "/proc/self/net/tcp6"]

/** Reads the listening sockets of the supervisor's own network, which is the sandbox's. */
export const readListening = async (): Promise<Listening[]> => {
  // A kernel without IPv6 lacks that table.
  const tables = await Promise.all(TABLES.map((path) => readFile(path, "latin1").catch(() => "")))
  return tables.flatMap(parseListening)
}

/** Matches a line in state 0A: the address in hexadecimal, in memory order, and the inode in the tenth column. */
const LISTENER =
  /^ *\d+: ([0-9A-F]{8}|[0-9A-F]{32}):([0-9A-F]{4}) \S+ 0A \S+ \S+ \S+ +\d+ +\d+ (\d+)/gm

export const parseListening = (table: string): Listening[] =>
  [...table.matchAll(LISTENER)].map(([, address = "", port = "", inode = ""]) => ({
    port: Number.parseInt(port, 16),
    address: addressOf(address),
    inode,
  }))

/** Decodes an address: words of four bytes, each in reverse order. */
const addressOf = (hex: string): string => {
  const bytes = (hex.match(/.{8}/g) ?? []).flatMap((word) =>
    [...Buffer.from(word, "hex")].reverse(),
  )
  return bytes.length === 4 ? bytes.join(".") : ipv6(bytes)
}

/** Formats an IPv6 address in its short form. */
const ipv6 = (bytes: readonly number[]): string => {
  const isMapped = bytes.slice(0, 12).every((byte, at) => byte === (at < 10 ? 0 : 0xff))
  if (isMapped) return `::ffff:${bytes.slice(12).join(".")}`
  const parts = Array.from({ length: 8 }, (_, at) =>
    (((bytes[2 * at] ?? 0) << 8) | (bytes[2 * at + 1] ?? 0)).toString(16),
  )
  const zeros = `:${parts.join(":")}:`.match(/:0(?::0)+(?=:)/g) ?? []
  const longest = zeros.toSorted((a, b) => b.length - a.length)[0]
  if (longest === undefined) return parts.join(":")
  const [before = "", ...after] = `:${parts.join(":")}:`.split(longest)
  return `${before.slice(1)}::${after.join(longest).slice(1, -1)}`
}
