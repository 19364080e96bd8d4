import { copyFileSync, existsSync, rmSync } from "node:fs"
import { join } from "node:path"
import { sampled } from "@berth/testing/sampled"
import { sampledCases } from "@berth/testing/sampled-cases"
import { expect } from "vitest"
import { BACKENDS, describeOn } from "../backends.ts"
import { engineOf, type World, worldOfFile } from "./world.ts"

/** Sandboxes boot and servers start, beside other tests. */
const DEADLINE_MS = 120_000

const FILES = ["berth.db", "berth.db-wal", "berth.db-shm"]

const describeRestored = (world: () => World, backend: string): void => {
  const make = async (slug: string) => {
    const workspace = { slug, network: { kind: "none" as const } }
    const sandbox = await world().client().sandboxes.create({ workspace })
    await sandbox.ready()
    return sandbox
  }
  const copyAll = (from: string, to: string) => {
    for (const name of FILES) {
      rmSync(join(world().dataDir, `${name}${to}`), { force: true })
      if (existsSync(join(world().dataDir, `${name}${from}`)))
        copyFileSync(join(world().dataDir, `${name}${from}`), join(world().dataDir, `${name}${to}`))
    }
  }

  sampledCases(`cases of a restored database, ${backend}`, 1, (it) => {
    it(
      "[R1.9] [R1.10] adopts a sandbox that the backup lacks, and drops a lease whose command has ended since the backup",
      async () => {
        const old = await make("old")
        const { id: ended } = await old.commands.start(["sleep", "1000"])
        await world().kill()
        copyAll("", ".backup")
        await world().start()
        await world().client().sandboxes.at(old.id).commands.kill(ended)
        const later = await make("later")
        await later.files.write("kept", "still here\n")
        const { id: running } = await later.commands.start(["sleep", "1000"])
        await world().kill()
        copyAll(".backup", "")
        await world().start()

        const { sandboxes } = world().client()
        const usersOf = async (id: string) =>
          (await sandboxes.get(id)).leases.map(({ holder }) => holder)
        await expect.poll(() => usersOf(later.id)).toEqual([`command ${running}`])
        expect(await sandboxes.get(later.id)).toMatchObject({ phase: "ready" })
        await expect.poll(() => usersOf(old.id)).toEqual([])
        expect(await sandboxes.get(old.id)).toMatchObject({ phase: "ready" })
        const again = await make("later")
        expect(again.id).toBe(later.id)
        expect(Buffer.from(await again.files.read("kept")).toString()).toBe("still here\n")
      },
      DEADLINE_MS,
    )

    it(
      "[R3.4] runs no prompt again, interrupts the prompt that ran at the backup, and marks lost events as a gap",
      async () => {
        const workspace = { slug: "talk", network: { kind: "none" as const } }
        const session = await world().client().sessions.create({ workspace })
        const again = () => world().client().sessions.at(session.id)
        const { id } = await session.prompt("echo ran >> /workspace/ran; sleep 1000")
        await expect
          .poll(async () => (await again().prompts()).map(({ state }) => state))
          .toEqual(["running"])
        await world().kill()
        copyAll("", ".backup")
        await world().start()
        await again().stop()
        await again().prompt("echo later >> /workspace/ran")
        await expect
          .poll(async () => (await again().prompts()).map(({ state }) => state))
          .toEqual(["stopped", "succeeded"])
        const { lastEvent } = await again().get()
        await world().kill()
        copyAll(".backup", "")
        await world().start()

        expect(await again().prompts()).toMatchObject([{ id, state: "interrupted" }])
        const { prompt } = again()
        const next = await prompt("cat /workspace/ran")
        let text = ""
        const seen: string[] = []
        // A client that saw events that the backup lacks is told of the gap.
        for await (const { body } of again().events({ after: lastEvent })) {
          seen.push(body.type)
          if (body.type === "message.delta") text += body.text
          if (body.type === "prompt.state" && body.prompt === next.id && body.state === "succeeded")
            break
        }
        expect(seen.slice(0, 2)).toEqual(["gap", "prompt.state"])
        expect(text).toBe("ran\nlater\n")
      },
      DEADLINE_MS,
    )
  })
}

describeOn(
  sampled("backends of a restored database", BACKENDS, 1),
  "a server whose database was put back from a backup",
  (backend) =>
    describeRestored(
      worldOfFile(() => engineOf(backend)),
      backend,
    ),
)
