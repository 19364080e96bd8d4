import { createHash, hash } from "node:crypto"
import { readFileSync } from "node:fs"
import { open } from "node:fs/promises"
import { setImmediate } from "node:timers/promises"

/** Large enough to be fast, small enough that progress moves and a cancel takes effect soon. */
const CHUNK_BYTES = 4 * 1024 * 1024

/**
 * Up to this size a file is handled in one go: a package has thousands of small ones, and each trip to another thread
 * would take longer than reading the file.
 */
export const SMALL_BYTES = 256 * 1024

export interface Reading {
  readonly signal: AbortSignal
  /** Called with the number of bytes read since the last call. */
  readonly onBytes: (bytes: number) => void
}

/** Reads a file piece by piece. The buffer is reused for the next piece. */
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

/** Yields to other work, and checks for a cancel. */
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
