import { ByteSource } from "./byte-source.ts"
import { refuse } from "./refuse.ts"
import { BLOCK_BYTES, type TarEntry } from "./tar-read.ts"

const PREFIX = "GNU.sparse."
const NAME = `${PREFIX}name`
const REAL_SIZE = `${PREFIX}realsize`
/** The one sparse form that tar writes with `--format=pax`: the map of the data stands before the data. */
const VERSION: readonly [string, string][] = [
  [`${PREFIX}major`, "1"],
  [`${PREFIX}minor`, "0"],
]
const MAX_REAL_BYTES = 2 ** 43
const MAX_PIECES = 1_000_000

export const isSparse = ({ pax }: TarEntry): boolean =>
  [...pax.keys()].some((key) => key.startsWith(PREFIX))

/** The real name of a sparse entry. */
export const sparsePath = (entry: TarEntry): string => {
  for (const [key, value] of VERSION) {
    if (word(entry, key) !== value) refuse("its sparse form is unknown", entry.path)
  }
  if (!/^\d{1,15}$/.test(word(entry, REAL_SIZE) ?? ""))
    refuse("its sparse size is unknown", entry.path)
  if (Number(word(entry, REAL_SIZE)) > MAX_REAL_BYTES) refuse("it is too long", entry.path)
  return word(entry, NAME) ?? refuse("its sparse name is missing", entry.path)
}

/** The records that the extended header of a sparse entry must have, and no others with this prefix. */
export const sparseRecords = (entry: TarEntry, path: string): [string, Buffer][] => [
  ...VERSION.map(([key, value]): [string, Buffer] => [key, Buffer.from(value)]),
  [NAME, Buffer.from(path, "latin1")],
  [REAL_SIZE, Buffer.from(word(entry, REAL_SIZE) ?? "")],
]

/** The body with its map checked: pieces in order, inside of the file, and exactly as long as the data that follows. */
export async function* sparseBody(entry: TarEntry): AsyncGenerator<Buffer> {
  const source = new ByteSource(entry.body)
  const { map, dataBytes } = await readMap(source, entry)
  const rest = entry.bodyBytes - map.length
  if (dataBytes !== rest) refuse("its sparse map does not fit its data", entry.path)
  yield map
  yield* source.window(rest)
}

const readMap = async (source: ByteSource, entry: TarEntry) => {
  const lines = lineReader(source, entry)
  const pieces = await lines.number()
  if (pieces > MAX_PIECES) refuse("its sparse map is too long", entry.path)
  const end = Number(word(entry, REAL_SIZE))
  let position = 0
  let dataBytes = 0
  for (let piece = 0; piece < pieces; piece += 1) {
    const offset = await lines.number()
    const bytes = await lines.number()
    if (offset < position || offset + bytes > end) refuse("its sparse map is wrong", entry.path)
    position = offset + bytes
    dataBytes += bytes
  }
  return { map: lines.taken(), dataBytes }
}

const lineReader = (source: ByteSource, entry: TarEntry) => {
  const taken: Buffer[] = []
  let text = ""
  let used = 0
  const more = async () => {
    if ((taken.length + 1) * BLOCK_BYTES > entry.bodyBytes)
      refuse("its sparse map is cut short", entry.path)
    const block = await source.exactly(BLOCK_BYTES)
    taken.push(block)
    text = text.slice(used) + block.toString("latin1")
    used = 0
  }
  return {
    number: async (): Promise<number> => {
      let end = text.indexOf("\n", used)
      while (end === -1) {
        if (text.length - used > BLOCK_BYTES) refuse("its sparse map is damaged", entry.path)
        await more()
        end = text.indexOf("\n", used)
      }
      const digits = text.slice(used, end)
      if (!/^\d{1,15}$/.test(digits)) refuse("its sparse map is damaged", entry.path)
      used = end + 1
      return Number(digits)
    },
    /** The whole map in complete blocks, as the form wants it. */
    taken: (): Buffer => Buffer.concat(taken),
  }
}

const word = ({ pax }: TarEntry, key: string): string | undefined =>
  pax.get(key)?.toString("latin1")
