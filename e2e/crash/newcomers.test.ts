import { existsSync, readdirSync, utimesSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { Slug } from "@berth/protocol/ids"
import type { Sandbox } from "@berth/sdk/sandboxes"
import { openStore } from "@berth/server/store/open"
import { sampled } from "@berth/testing/sampled"
import { expect, it } from "vitest"
import { BACKENDS, type BackendName, describeOn } from "../backends.ts"
import { engineOf, type World, worldOfFile } from "./world.ts"

/** The steps of a fork in their order, of a running sandbox and of a stopped one. */
const STEPS = {
  running: [
    ...["newcomer.reserved", "snapshot.prepared", "snapshot.frozen", "snapshot.copied"],
    ...[
      "snapshot.described",
      "snapshot.renamed",
      "snapshot.pinned",
      "files.put",
      "newcomer.filled",
    ],
  ],
  stopped: [
    "newcomer.reserved",
    "freeze.described",
    "freeze.renamed",
    "files.put",
    "newcomer.filled",
  ],
} as const

const IMPORT_STEPS = [
  ...["newcomer.reserved", "import.prepared", "import.unpacked", "import.described"],
  ...["import.renamed", "import.pinned", "files.put", "newcomer.filled"],
] as const

const FORKS = Object.entries(STEPS).flatMap(([state, steps]) =>
  steps.map((step) => ({ state: state as keyof typeof STEPS, step })),
)

/** Sandboxes boot and servers start, beside other tests. */
const DEADLINE_MS = 120_000

const DAY_MS = 24 * 3600 * 1000

const lookInto = (world: () => World) => {
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

  return { make, namesIn, seesFile, remove }
}

/** Kills the server at one step of forks and one of imports; in a whole run, at every step. */
const dyingServers = (world: () => World, backend: BackendName): void => {
  const { make, namesIn, seesFile, remove } = lookInto(world)
  it.each(sampled(`steps of a fork, ${backend}`, FORKS, 1))(
    "[R1.10] at $step of a fork of a $state sandbox leaves no files of the fork, whose name is free again",
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
    DEADLINE_MS,
  )

  it.each(sampled(`steps of an import, ${backend}`, IMPORT_STEPS, 1))(
    "at %s of an import leaves no files of it, and its name is free again",
    async (step) => {
      const origin = await make("origin")
      await origin.commands.run("date +%N > kept")
      const { workspaces } = world().client()
      const archive = await new Response(await workspaces.exportFiles("origin")).bytes()
      world().dieAt(step)
      await expect(workspaces.importFiles("copy", archive)).rejects.toMatchObject({
        code: "server.unreachable",
      })
      await world().death()
      await world().start()
      await world().client().sandboxes.list()
      expect(namesIn("stacks")).toEqual(["origin"])
      expect([...namesIn("pins"), ...namesIn("incoming")]).toEqual([])
      const { identity } = await world().client().workspaces.importFiles("copy", archive)
      const copy = world().client().sandboxes.at(identity.sandbox)
      await copy.ready()
      expect(await seesFile(copy)).toBe(true)
      await remove(copy)
      await remove(world().client().sandboxes.at(origin.id))
      await expect.poll(() => [...namesIn("layers"), ...namesIn("stacks")]).toEqual([])
    },
    DEADLINE_MS,
  )
}

const leftFiles = (world: () => World): void => {
  const { make, namesIn } = lookInto(world)
  it(
    "[R1.10] keeps files without a workspace for a week, then removes them, and no others",
    async () => {
      const slugs = ["lost", "young", "unknown", "kept"]
      for (const slug of slugs) {
        const sandbox = await make(slug)
        if (slug !== "unknown") await sandbox.stop()
      }
      const forget = async (...lost: string[]) => {
        await world().kill()
        const { db, close } = await openStore({ dataDir: world().dataDir })
        await db
          .deleteFrom("workspaces")
          .where("slug", "in", lost as Slug[])
          .execute()
        await db
          .deleteFrom("sandboxes")
          .where("workspace", "in", lost as Slug[])
          .execute()
        await close()
      }
      const age = (slug: string) => {
        const note = join(world().dataDir, "layers", "ownerless", slug)
        writeFileSync(note, "")
        const then = new Date(Date.now() - 8 * DAY_MS)
        utimesSync(note, then, then)
      }
      await forget("lost", "young", "unknown")
      await world().start()
      await expect.poll(() => namesIn("ownerless")).toEqual(["lost", "young"])
      expect(namesIn("stacks").toSorted()).toEqual(slugs.toSorted())

      await world().kill()
      age("lost")
      age("kept")
      await world().start()
      await expect.poll(() => namesIn("stacks").toSorted()).toEqual(["kept", "unknown", "young"])
      await expect.poll(() => namesIn("ownerless")).toEqual(["young"])
      const kept = await make("kept")
      expect((await kept.commands.run("ls -a /home")).status).toBe(0)
    },
    DEADLINE_MS,
  )
}

describeOn(
  sampled("backends of forks and imports in whose middle a server dies", BACKENDS, 1),
  "a server that is killed in the middle of a fork or an import",
  (backend) => {
    const world = worldOfFile(() => engineOf(backend))
    dyingServers(world, backend)
    leftFiles(world)
  },
)
