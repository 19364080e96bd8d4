import { readFileSync } from "node:fs"
import { join } from "node:path"
import type { Sandbox } from "@berth/sdk/sandboxes"
import { requires } from "@berth/testing/requires"
import { sized } from "@berth/testing/sampled"
import { expect, it } from "vitest"
import { worldOfFile } from "../crash/world.ts"

const FORKS = sized("forks in a row", { few: 30, all: 200 })
const FORK_MS = 5_000

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces").describe(
  "a workspace that is forked again and again",
  () => {
    const world = worldOfFile()

    const read = (...path: string[]) =>
      JSON.parse(readFileSync(join(world().dataDir, "layers", ...path), "utf8"))
    const depthOf = (workspace: string): number => {
      const { layer } = read("stacks", workspace, "workspace.json")
      return layer === null ? 0 : read("layers", layer, "layer.json").parents.length + 1
    }

    it(
      `keeps all its files over ${FORKS} forks in a row (200 with BERTH_TEST_ALL), every second one of a stopped sandbox, and is flattened by itself at 24 layers`,
      async () => {
        const workspace = { slug: "fork-0", network: { kind: "none" as const } }
        let sandbox: Sandbox = await world().client().sandboxes.create({ workspace })
        await sandbox.ready()
        await sandbox.commands.run("mkdir moved-0; echo inside > moved-0/file")
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
        expect(deepest).toBeLessThan(60)
        expect(lastFew).toBeGreaterThan(FORKS - 25)
        const { stdout } = await sandbox.commands.run("cat kept moved-*/file; ls")
        const lines = Array.from({ length: FORKS }, (_, index) => `${index + 1}`)
        expect(stdout.split("\n")).toEqual([...lines, "inside", "kept", `moved-${FORKS}`, ""])
      },
      FORKS * FORK_MS,
    )
  },
)
