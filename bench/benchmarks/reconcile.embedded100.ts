import { join } from "node:path"
import type { SandboxId } from "@berth/protocol/ids"
import { benchmark } from "../benchmark.ts"
import { runCommand } from "../command.ts"
import { openEmbeddedFixture, TALKER } from "../fixtures/embedded.ts"
import { openStale } from "../fixtures/stale.ts"
import { timeMs } from "../measure.ts"

const COUNT = 100
/** As many as the host's own tools are usually given at once. */
const AT_ONCE = 10

/** Stopping with grace and removing, with everything that is read, decided and noted for it. */
export default benchmark({
  what: "reconcile of 100 stale embedded sandboxes / the runtime's own delete, 100 in parallel",
  unit: "ms",
  bound: { of: "ratio", atMost: 1.5 },
  statistic: "median",
  runs: 7,
  deadlineMs: 20 * 60_000,
  prepare: async (context) => {
    const embedded = await openEmbeddedFixture(context)
    return { embedded, stale: await openStale(context, embedded.backend) }
  },
  ours: async ({ embedded, stale }, signal) => {
    const all = await bootAll(() => embedded.boot(TALKER, signal))
    await stale.know(all)
    return await timeMs(async () => {
      const { sandboxes } = await stale.sandboxes.reconcile({ dryRun: false })
      const removed = sandboxes.filter(({ outcome }) => outcome === "removed")
      if (removed.length !== COUNT) throw new Error(`${removed.length} of ${COUNT} were removed`)
    })
  },
  other: async ({ embedded: { backend, boot, directory } }, signal) => {
    const all = await bootAll(() => boot(TALKER, signal))
    const root = join(directory, "runtime")
    const took = await timeMs(async () => {
      await Promise.all(
        all.map((id) => runCommand("crun", ["--root", root, "delete", "--force", id], signal)),
      )
    })
    for (const id of all) await backend.remove(id)
    return took
  },
})

const bootAll = async (boot: () => Promise<SandboxId>): Promise<SandboxId[]> => {
  const all: SandboxId[] = []
  while (all.length < COUNT) all.push(...(await Promise.all(Array.from({ length: AT_ONCE }, boot))))
  return all
}
