import { existsSync, readdirSync } from "node:fs"
import { join } from "node:path"
import type { Sandbox } from "@berth/sdk/sandboxes"
import { requires } from "@berth/testing/requires"
import { sampled } from "@berth/testing/sampled"
import { expect, it } from "vitest"
import { worldOfFile } from "./world.ts"

/** Steps of a fork in their order: of a sandbox that runs, and of one that is stopped. */
const STEPS = {
  running: [
    ...["fork.reserved", "snapshot.prepared", "snapshot.frozen", "snapshot.copied"],
    ...["snapshot.described", "snapshot.renamed", "snapshot.pinned", "fork.put", "fork.copied"],
  ],
  stopped: ["fork.reserved", "freeze.described", "freeze.renamed", "fork.put", "fork.copied"],
} as const

const CASES = Object.entries(STEPS).flatMap(([state, steps]) =>
  sampled(`steps of a fork of a ${state} sandbox`, steps, 3).map((step) => ({
    state: state as keyof typeof STEPS,
    step,
  })),
)

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces").describe(
  "a server that is killed in the middle of a fork",
  () => {
    const world = worldOfFile()

    const make = async (slug: string): Promise<Sandbox> => {
      const workspace = { slug, network: { kind: "none" as const } }
      const sandbox = await world().client().sandboxes.create({ workspace })
      await sandbox.ready()
      return sandbox
    }
    const namesIn = (folder: string): string[] => {
      const path = join(world().dataDir, "layers", folder)
      return existsSync(path) ? readdirSync(path) : []
    }
    const seesFile = async (sandbox: Sandbox): Promise<boolean> =>
      (await sandbox.commands.run("ls kept")).status === 0
    const remove = (sandbox: Sandbox) =>
      world().client().sandboxes.remove(sandbox.id, { force: true })

    it.each(CASES)(
      "[R1.10] at $step of one that is $state, leaves nothing of the fork, whose name is free again for it and for others",
      async ({ state, step }) => {
        const origin = await make("origin")
        await origin.commands.run("date +%N > kept")
        if (state === "stopped") await origin.stop()
        world().dieAt(step)
        await expect(origin.fork("copy")).rejects.toMatchObject({ code: "server.unreachable" })
        await world().death()
        await world().start()
        await world().client().sandboxes.list()
        expect(namesIn("stacks")).toEqual(["origin"])
        expect(namesIn("pins")).toEqual([])
        const other = await make("copy")
        expect(await seesFile(other)).toBe(false)
        await remove(other)

        const fork = await world().client().sandboxes.at(origin.id).fork("copy")
        await fork.ready()
        expect(await seesFile(fork)).toBe(true)
        expect(namesIn("pins")).toEqual([])
        await remove(fork)
        await remove(origin)
        await expect.poll(() => [...namesIn("layers"), ...namesIn("stacks")]).toEqual([])
      },
      60_000,
    )
  },
)
