import type { Program } from "../programs.ts"
import { readTar, type TarEntry } from "./tar-read.ts"

/** The entries that a running tar writes. Its own words come before those about an archive that it cut short. */
export async function* tarOutput({ stdout, ended, stop }: Program): AsyncGenerator<TarEntry> {
  try {
    yield* readTar(stdout)
    await ended
  } catch (thrown) {
    // The output has ended, so tar does too, and knows why.
    if (stdout.readableEnded) await ended
    throw thrown
  } finally {
    stop()
  }
}
