import { closeSync, openSync, writeSync } from "node:fs"

const CHUNK_BYTES = 64 * 1024

/** A file of paths, each ended by a zero byte, as programs read them. */
export interface PathList {
  add(path: Buffer): void
  close(): void
}

export const openPathList = (file: string): PathList => {
  const descriptor = openSync(file, "w", 0o600)
  let chunks: Buffer[] = []
  let bytes = 0
  const flush = (): void => {
    const whole = Buffer.concat(chunks)
    for (let done = 0; done < whole.length; ) done += writeSync(descriptor, whole, done)
    chunks = []
    bytes = 0
  }
  return {
    add: (path) => {
      chunks.push(HERE, path, END)
      bytes += HERE.length + path.length + END.length
      if (bytes > CHUNK_BYTES) flush()
    },
    close: () => {
      try {
        flush()
      } finally {
        closeSync(descriptor)
      }
    },
  }
}

/** The prefix of each path, so that no name is taken for an option. */
const HERE = Buffer.from("./")
const END = Buffer.from("\0")
