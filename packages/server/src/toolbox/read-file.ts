import { createHash, hash } from "node:crypto"
import { readFileSync } from "node:fs"
import { open } from "node:fs/promises"
import { setImmediate } from "node:timers/promises"

/** Large enough to be fast, small enough that progress moves and a cancel is heard. */
const CHUNK_BYTES = 4 * 1024 * 1024

/**
 * Up to this size a file is handled in one go: a package has thousands of small ones, and each trip to
 * another thread would take longer than reading it.
 */
export const SMALL_BYTES = 256 * 1024

export interface Reading {
  readonly signal: AbortSignal
  /** Told how much was read since the last time. */
  readonly onBytes: (bytes: number) => void
}

/** Hands a file on piece by piece. The piece is reused for the next one. */
export const readInChunks = async (
  path: string,
  { signal, onBytes }: Reading,
  take: (chunk: Buffer) => void | Promise<void>,
): Promise<void> => {
  const handle = await open(path, "r")
  try {
    const buffer = Buffer.allocUnsafe(CHUNK_BYTES)
    for (;;) {
      signal.throwIfAborted()
      const { bytesRead } = await handle.read(buffer)
      if (bytesRead === 0) return
      await take(buffer.subarray(0, bytesRead))
      onBytes(bytesRead)
    }
  } finally {
    await handle.close()
  }
}

/** Lets others have their turn, and hears a cancel. */
export const breathe = async (signal: AbortSignal): Promise<void> => {
  await setImmediate()
  signal.throwIfAborted()
}

export interface Contents {
  readonly bytes: number
  readonly sha256: string
}

export const hashFile = async (path: string, size: bigint, reading: Reading): Promise<Contents> => {
  if (size <= SMALL_BYTES) {
    await breathe(reading.signal)
    const contents = hashOf(readFileSync(path))
    reading.onBytes(contents.bytes)
    return contents
  }
  const digest = createHash("sha256")
  let bytes = 0
  await readInChunks(path, reading, (chunk) => {
    digest.update(chunk)
    bytes += chunk.length
  })
  return { bytes, sha256: digest.digest("hex") }
}

export const hashOf = (data: string | Buffer): Contents => ({
  bytes: Buffer.byteLength(data),
  sha256: hash("sha256", data),
})
