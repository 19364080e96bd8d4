import { closeSync, openSync, readSync, rmSync, writeSync } from "node:fs"

const CHUNK_BYTES = 1024 * 1024
/** A name's depth stands before it, its length behind it: a stack is read from its end. */
const HEAD_BYTES = 4
const TAIL_BYTES = 2

export interface PendingDirectory {
  readonly depth: number
  readonly name: Buffer
}

/** A stack of directories that are to be walked. */
export interface Pending {
  push(depth: number, name: Buffer): void
  pop(): PendingDirectory | undefined
  close(): void
}

/**
 * Keeps two chunks in memory and the others in a file without a name, so that a directory of a million directories
 * takes no more memory than an empty one. Two chunks, so that a walk that goes up and down at a chunk's edge does not
 * move a chunk with every step.
 */
export const openPending = (spill: string): Pending => {
  let file: number | undefined
  const spilled: number[] = []
  let below = emptyChunk()
  let above = emptyChunk()

  const spillBelow = (): void => {
    file ??= openNameless(spill)
    writeWhole(file, below.bytes, spilled.length * CHUNK_BYTES)
    spilled.push(below.used)
    below.used = 0
  }
  const takeBack = (): boolean => {
    const used = spilled.pop()
    if (used === undefined || file === undefined) return false
    readWhole(file, above.bytes, spilled.length * CHUNK_BYTES)
    above.used = used
    return true
  }
  return {
    push: (depth, name) => {
      const bytes = HEAD_BYTES + name.length + TAIL_BYTES
      if (above.used + bytes > CHUNK_BYTES) {
        if (below.used > 0) spillBelow()
        ;[below, above] = [above, below]
      }
      above.bytes.writeUInt32LE(depth, above.used)
      name.copy(above.bytes, above.used + HEAD_BYTES)
      above.bytes.writeUInt16LE(name.length, above.used + HEAD_BYTES + name.length)
      above.used += bytes
    },
    pop: () => {
      if (above.used === 0 && below.used > 0) [below, above] = [above, below]
      if (above.used === 0 && !takeBack()) return undefined
      const nameEnd = above.used - TAIL_BYTES
      const nameStart = nameEnd - above.bytes.readUInt16LE(nameEnd)
      above.used = nameStart - HEAD_BYTES
      return {
        depth: above.bytes.readUInt32LE(above.used),
        name: Buffer.from(above.bytes.subarray(nameStart, nameEnd)),
      }
    },
    close: () => {
      if (file !== undefined) closeSync(file)
      file = undefined
    },
  }
}

const emptyChunk = () => ({ bytes: Buffer.alloc(CHUNK_BYTES), used: 0 })

/** Opens a file without a name: it goes with its descriptor, whatever ends this process. */
const openNameless = (path: string): number => {
  const file = openSync(path, "wx+", 0o600)
  rmSync(path, { force: true })
  return file
}

const writeWhole = (file: number, bytes: Buffer, position: number): void => {
  for (let done = 0; done < bytes.length; )
    done += writeSync(file, bytes, done, bytes.length - done, position + done)
}

const readWhole = (file: number, bytes: Buffer, position: number): void => {
  for (let done = 0; done < bytes.length; ) {
    const read = readSync(file, bytes, done, bytes.length - done, position + done)
    if (read === 0) throw new Error("the list of directories to walk was cut short")
    done += read
  }
}
