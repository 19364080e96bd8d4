import { once } from "node:events"
import { PassThrough } from "node:stream"
import type { Context } from "../context.ts"
import type { ToldEntry } from "./tally.ts"

/** The entries of one kind in a tree, as fast as they are taken. */
export async function* toldEntries(
  { walk, idBase }: Pick<Context, "walk" | "idBase">,
  tree: string,
  kind: "d" | "s",
  signal: AbortSignal | undefined,
): AsyncGenerator<ToldEntry> {
  const left = new AbortController()
  const batches = new PassThrough({ objectMode: true, highWaterMark: 1 })
  const take = async (entries: readonly ToldEntry[]): Promise<void> => {
    if (!batches.write(entries)) await once(batches, "drain", { signal: left.signal })
  }
  const walking = walk(tree, idBase, {
    tell: { kind, take },
    signal: signal ? AbortSignal.any([signal, left.signal]) : left.signal,
  }).then(
    () => batches.end(),
    (thrown) => batches.destroy(thrown),
  )
  try {
    for await (const entries of batches as AsyncIterable<ToldEntry[]>) yield* entries
  } finally {
    left.abort()
    await walking
  }
}
