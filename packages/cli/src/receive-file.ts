import { createWriteStream } from "node:fs"
import { statfs } from "node:fs/promises"
import { dirname } from "node:path"
import { Readable } from "node:stream"
import { pipeline } from "node:stream/promises"
import { LEFT_FREE_BYTES, noRoom } from "./disk-room.ts"

/** The bytes between two checks of the disk: a small part of what is left free. */
const LOOK_EVERY_BYTES = 4 * 1024 * 1024

/** Writes data from a sandbox to a new file. An endless answer ends where the disk would have no room. */
export const receiveFile = async (
  bytes: ReadableStream<Uint8Array>,
  file: string,
  signal: AbortSignal,
): Promise<void> => {
  const pieces = Readable.from(whileRoom(bytes, dirname(file)))
  await pipeline(pieces, createWriteStream(file, { mode: 0o600, flags: "wx" }), { signal })
}

async function* whileRoom(bytes: AsyncIterable<Uint8Array>, directory: string) {
  let unseen = LOOK_EVERY_BYTES
  for await (const chunk of bytes) {
    unseen += chunk.length
    if (unseen > LOOK_EVERY_BYTES) {
      const { bavail, bsize } = await statfs(directory)
      const free = bavail * bsize
      if (free < LEFT_FREE_BYTES) throw noRoom({ free })
      unseen = 0
    }
    yield chunk
  }
}
