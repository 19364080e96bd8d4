import { readFileSync } from "node:fs"
import { join } from "node:path"
import { openLayersFound } from "@berth/layers/open"
import { FLATTEN_AT_LAYERS, MAX_LAYERS } from "@berth/layers/stacks/depth"
import { AGENT } from "@berth/layers/testing/ids"
import { key } from "@berth/layers/testing/key"
import { inMount } from "@berth/layers/testing/mount"
import { newId } from "@berth/protocol/ids"
import type { Sandbox } from "@berth/sdk/sandboxes"
import { isWholeRun, sampled, sized } from "@berth/testing/sampled"
import { expect, it } from "vitest"
import { BACKENDS, describeOn } from "../backends.ts"
import { engineOf, worldOfFile } from "../crash/world.ts"

const FORKS = sized("forks in a row", { few: 8, all: 200 })
/** Frozen layers that the first workspace begins with, so that a few forks make it deep. */
const LAYERS = isWholeRun ? 0 : FLATTEN_AT_LAYERS - 2
const FORK_MS = 5_000

describeOn(
  sampled("backends of forks in a row", BACKENDS, 1),
  "a workspace that is forked again and again",
  (backend) => {
    const world = worldOfFile(() => engineOf(backend))

    const read = (...path: string[]) =>
      JSON.parse(readFileSync(join(world().dataDir, "layers", ...path), "utf8"))
    const depthOf = (workspace: string): number => {
      const { layer } = read("stacks", workspace, "workspace.json")
      return layer === null ? 0 : read("layers", layer, "layer.json").parents.length + 1
    }

    /** Adds a line to a file in each of that many layers. */
    const freezeLayers = async (workspace: string, count: number): Promise<void> => {
      const root = join(world().dataDir, "layers")
      const layers = await openLayersFound(root)
      if (layers === undefined) throw new Error(`there is no store in ${root}`)
      const stack = key(workspace)
      const sandbox = newId.sandbox()
      const owner = read("store.json").idBase + AGENT.uid
      for (let line = 1; line <= count; line += 1) {
        await layers.ensureTop(stack, AGENT)
        const { top, mount } = await layers.claimTop(stack, sandbox)
        await inMount(mount, `echo ${line} >> kept`, owner)
        await layers.releaseTop(top, sandbox)
        await layers.freeze(stack)
      }
      await layers.close()
    }

    it(
      `keeps its files over ${FORKS} forks in a row, every second one of a stopped sandbox, and is flattened without being asked at ${FLATTEN_AT_LAYERS} layers`,
      async () => {
        const workspace = { slug: "fork-0", network: { kind: "none" as const } }
        let sandbox: Sandbox = await world().client().sandboxes.create({ workspace })
        await sandbox.ready()
        await sandbox.commands.run("mkdir moved-0; echo inside > moved-0/file")
        await sandbox.stop()
        await world().kill()
        await freezeLayers("fork-0", LAYERS)
        await world().start()
        sandbox = world().client().sandboxes.at(sandbox.id)
        let deepest = 0
        let lastFew = 0
        for (let count = 1; count <= FORKS; count += 1) {
          await sandbox.commands.run(`echo ${count} >> kept; mv moved-* moved-${count}`)
          if (count % 2 === 0) await sandbox.stop()
          const fork = await sandbox.fork(`fork-${count}`)
          await fork.ready()
          await world().client().sandboxes.remove(sandbox.id, { force: true })
          sandbox = fork
          const depth = depthOf(`fork-${count}`)
          deepest = Math.max(deepest, depth)
          if (depth <= 5) lastFew = count
        }
        expect(deepest).toBeGreaterThanOrEqual(FLATTEN_AT_LAYERS)
        expect(deepest).toBeLessThan(MAX_LAYERS)
        expect(lastFew).toBeGreaterThan(Math.max(0, FORKS - FLATTEN_AT_LAYERS - 1))
        const { stdout } = await sandbox.commands.run("cat kept moved-*/file; ls")
        const count = (last: number) => Array.from({ length: last }, (_, index) => `${index + 1}`)
        const lines = [...count(LAYERS), ...count(FORKS)]
        expect(stdout.split("\n")).toEqual([...lines, "inside", "kept", `moved-${FORKS}`, ""])
      },
      (LAYERS + FORKS) * FORK_MS,
    )
  },
)
