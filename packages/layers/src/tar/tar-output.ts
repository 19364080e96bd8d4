import type { Program } from "../io/programs.ts"
import { readTar, type TarEntry } from "./tar-read.ts"

/**
 * The entries that a running tar writes. If tar fails, its own words are thrown, not those about the archive that it
 * cut short.
 */
export async function* tarOutput({ stdout, ended, stop }: Program): AsyncGenerator<TarEntry> {
  try {
    yield* readTar(stdout)
    await ended
  } catch (thrown) {
    // The output has ended, so tar ends too, and its error says why.
    if (stdout.readableEnded) await ended
    throw thrown
  } finally {
    stop()
  }
}
