import { statfs } from "node:fs/promises"
import { dirname } from "node:path"
import { type ProgramOptions, startProgram } from "../io/programs.ts"

export interface CopyCall {
  readonly signal: AbortSignal
  /** Called with the number of files copied so far, and repeatedly while a large file is being copied. */
  onCopied(files: number): void
}

/** The pause between two checks whether a large file grows. */
const LOOK_EVERY_MS = 1_000

/**
 * A disk that changes is taken for the growth of one file for at most this long: other programs write to it as well.
 */
const LARGE_FILE_MS = 15 * 60_000

const NEWLINE = "\n".charCodeAt(0)

/** Runs a program that copies, and writes a line for each file. */
export const runCopying = async (
  command: readonly [string, ...string[]],
  { to, ...options }: Omit<ProgramOptions, "signal"> & { readonly to: string },
  { signal, onCopied }: CopyCall,
): Promise<void> => {
  const program = startProgram(command, { ...options, signal })
  program.stdin.end()
  let files = 0
  let copiedAtMs = performance.now()
  program.stdout.on("data", (chunk: Buffer) => {
    for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, at + 1)) files += 1
    copiedAtMs = performance.now()
    onCopied(files)
  })
  let free = -1
  const look = async (): Promise<void> => {
    const { bfree } = await statfs(dirname(to))
    if (bfree !== free && performance.now() - copiedAtMs < LARGE_FILE_MS) onCopied(files)
    free = bfree
  }
  const timer = setInterval(() => void look().catch(() => {}), LOOK_EVERY_MS)
  try {
    await program.ended
  } finally {
    clearInterval(timer)
  }
}
