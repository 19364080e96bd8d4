import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type SandboxId, Slug } from "@berth/protocol/ids"
import { AGENT_ID, idBase } from "@berth/server/backends/embedded/ids/range"
import { benchmark, type Context } from "../benchmark.ts"
import { openDocker } from "../fixtures/docker.ts"
import { openEmbeddedFixture, TALKER } from "../fixtures/embedded.ts"
import { BYTES_EACH, FILES, openLayersFixture } from "../fixtures/layers.ts"
import { makeTree } from "../fixtures/tree.ts"
import { timeMs } from "../measure.ts"

const CHANGED_BYTES = 5_000_000
const STACK = Slug.parse("workspace")

/** Freezing what a running sandbox has changed, against committing a container that holds the same. */
export default benchmark({
  what: "live snapshot with 5 MB changed on 500 MB / docker commit",
  unit: "ms",
  bound: { of: "ratio", atMost: 0.05 },
  statistic: "median",
  runs: 7,
  prepare: async (context) => ({
    ...(await openOurs(context)),
    ...(await openTheirs(context)),
  }),
  ours: async ({ layers, key, sandbox, backend }, signal) => {
    let pins: Parameters<typeof layers.unpin>[0][] = []
    const took = await timeMs(async () => {
      const made = await layers.snapshot([key], {
        sandbox,
        signal,
        reason: "a benchmark",
        freeze: () => backend.pause(sandbox),
        thaw: () => backend.resume(sandbox),
      })
      pins = made.layers.map(({ pin }) => pin)
    })
    for (const pin of pins) await layers.unpin(pin)
    await layers.collect()
    return took
  },
  other: ({ docker, container }, signal) => docker.commit(container, signal),
})

const openOurs = async (context: Context) => {
  const embedded = await openEmbeddedFixture(context)
  const { layers, stack, layerOf, root } = await openLayersFixture(
    context,
    idBase(embedded.installation),
  )
  const key = await stack("shop", await layerOf("base", FILES, BYTES_EACH))
  const { top } = await layers.ensureTop(key, { uid: AGENT_ID, gid: AGENT_ID, mode: 0o755 })
  await writeFile(join(root, "tops", top, "tree", "changed"), Buffer.alloc(CHANGED_BYTES, "x"))
  const mounts = [{ kind: "stack", stack: STACK, target: "/workspace" }] as const
  const overlays = async (sandbox: SandboxId) => {
    const { mount } = await layers.claimTop(key, sandbox)
    const { cwd: base, lower, upper, work, options } = mount
    return [{ stack: STACK, base, lower: [...lower], upper, work, options: [...options] }]
  }
  const sandbox = await embedded.boot(TALKER, context.signal, mounts, overlays)
  return { layers, key, sandbox, backend: embedded.backend }
}

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
