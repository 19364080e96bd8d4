import { randomBytes } from "node:crypto"
import { existsSync, renameSync, rmSync } from "node:fs"
import { mkdir, open, rename, rm, statfs, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { syncDirectory } from "@berth/local/owned/directory"
import { run } from "./run.ts"

/**
 * A part of the data directory's disk that is taken while there is room, and given up when a write of the server finds
 * none. The reserve is in pieces, each of them one file for blocks and some empty ones for inodes, so that another
 * program that takes the space of one piece does not get all of it.
 */
export interface Reserve {
  /** The number of pieces. */
  left(): number
  /** Gives up one piece. Returns false if there is none. */
  release(): boolean
  /** Makes missing pieces, from a small part of the free space. */
  fill(): Promise<void>
}

export const PIECES = 8
/**
 * The size of a piece. Stopping or removing a sandbox writes some hundred kilobytes: pages of the store's log, state
 * files.
 */
const PIECE_BYTES = 4 * 1024 * 1024
/** The empty files of a piece. Each stop makes a handful of files for a moment. */
const PIECE_INODES = 64
/** The reserve is at most this fraction of the free space, so that a small disk has a small one. */
const SHARE = 16
/** A smaller piece is of no use. */
const LEAST_BYTES = 256 * 1024

export const openReserve = (dataDir: string): Reserve => {
  const root = join(dataDir, "reserve")
  const piece = (number: number) => join(root, `${number}`)
  const numbers = Array.from({ length: PIECES }, (_, number) => number)
  const there = () => numbers.filter((number) => existsSync(piece(number)))
  let filling: Promise<void> | undefined

  const fillPiece = async (number: number): Promise<void> => {
    const { bavail, bsize, files, ffree } = await statfs(dataDir)
    const share = SHARE * PIECES
    const bytes = Math.min(PIECE_BYTES, Math.floor((bavail * bsize) / share))
    if (bytes < LEAST_BYTES) return
    const draft = `${piece(number)}.new`
    await rm(draft, { recursive: true, force: true })
    await mkdir(draft, { recursive: true, mode: 0o700 })
    const inodes = files === 0 ? 0 : Math.min(PIECE_INODES, Math.floor(ffree / share))
    for (let inode = 0; inode < inodes; inode += 1)
      await writeFile(join(draft, `${inode}`), "", { mode: 0o600 })
    await takeBlocks(join(draft, "blocks"), bytes)
    await rename(draft, piece(number))
  }

  const fillAll = async (): Promise<void> => {
    for (const number of numbers) if (!existsSync(piece(number))) await fillPiece(number)
  }

  return {
    left: () => there().length,
    release: () => {
      const last = there().at(-1)
      if (last === undefined) return false
      // A half removed piece is removed when it is made again.
      renameSync(piece(last), `${piece(last)}.new`)
      rmSync(`${piece(last)}.new`, { recursive: true, force: true })
      // The file system gives freed blocks to nobody until its journal has noted them as free.
      syncDirectory(dataDir)
      return true
    },
    fill: () => {
      filling ??= fillAll().finally(() => {
        filling = undefined
      })
      return filling
    },
  }
}

/**
 * Makes a file of that many bytes whose blocks are allocated, without writing them where the file system can do that.
 */
const takeBlocks = async (path: string, bytes: number): Promise<void> => {
  const size = ["--length", String(bytes)]
  const { status } = await run(["fallocate", ...size, "--", path], { signal: NEVER })
  const file = await open(path, "a", 0o600)
  try {
    // Random bytes, since zeros would take no space on a file system that compresses.
    if (status !== 0) await file.writeFile(randomBytes(bytes))
    // Until the file is on the disk, its blocks are only promised by the kernel.
    await file.sync()
  } finally {
    await file.close()
  }
}

/** Filling a piece takes a moment, and is not worth a cancellation. */
const NEVER = new AbortController().signal
