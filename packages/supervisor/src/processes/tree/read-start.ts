import { open } from "node:fs/promises"

const CHUNK_BYTES = 64 * 1024

/** Reads the start of a file, up to about so many bytes. Stops after the read that is under way when the signal fires. */
export const readStart = async (
  path: string,
  { maxBytes, until }: { readonly maxBytes: number; readonly until: AbortSignal },
): Promise<string> => {
  const file = await open(path)
  try {
    let text = ""
    while (text.length < maxBytes && !until.aborted) {
      const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(CHUNK_BYTES))
      if (bytesRead === 0) break
      text += buffer.toString("latin1", 0, bytesRead)
    }
    return text
  } finally {
    await file.close()
  }
}
