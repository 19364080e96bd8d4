import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { benchmark, type Context } from "../benchmark.ts"
import { openDocker } from "../fixtures/docker.ts"
import { TALKER } from "../fixtures/embedded.ts"
import { BYTES_EACH, FILES } from "../fixtures/layers.ts"
import { CHANGED_BYTES, openChanged } from "../fixtures/snapshot.ts"
import { makeTree } from "../fixtures/tree.ts"

/** Freezes the changes of a running sandbox, compared with committing a container that holds the same. */
export default benchmark({
  what: "live snapshot with 5 MB changed on 500 MB / docker commit",
  unit: "ms",
  bound: { of: "ratio", atMost: 0.05 },
  statistic: "median",
  runs: 7,
  prepare: async (context) => ({
    snapshot: await openChanged(context, BYTES_EACH),
    ...(await openTheirs(context)),
  }),
  ours: ({ snapshot }, signal) => snapshot(signal),
  other: ({ docker, container }, signal) => docker.commit(container, signal),
})

const openTheirs = async (context: Context) => {
  const docker = await openDocker(context)
  const source = await mkdtemp(join(tmpdir(), "berth-bench-tree-"))
  context.onEnd(() => rm(source, { recursive: true, force: true }))
  await makeTree(source, FILES, BYTES_EACH)
  await writeFile(join(source, "changed"), Buffer.alloc(CHANGED_BYTES, "x"))
  const [shell = "", ...rest] = TALKER
  const script = `cp -a /source/. /home/ && ${rest.at(-1)}`
  const container = await docker.boot([shell, "-c", script], context.signal, [
    `${source}:/source:ro`,
  ])
  return { docker, container }
}
