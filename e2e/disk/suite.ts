import { statSync } from "node:fs"
import { join } from "node:path"
import { sized } from "@berth/testing/sampled"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { openServer } from "../sandboxes/server.ts"
import { makeSmallDisk, type SmallDisk } from "./small-disk.ts"

type Server = Awaited<ReturnType<typeof openServer>>

/** A server, sandboxes and a file system are made beside other tests. */
const STAGE_DEADLINE_MS = 180_000
const DEADLINE_MS = 60_000
const WAIT = { timeout: DEADLINE_MS, interval: 50 }

/** Takes the disk in leaps that nobody can watch, then everything that becomes free again, for ever. */
const TAKE_BLOCKS = `
  for size in 1G 256M 64M 16M 4M 1M 256K 64K 16K 4K; do
    n=0; while fallocate -l $size fill-$size-$n; do n=$((n + 1)); done
  done
  while :; do n=$((n + 1)); cat /dev/zero > zero-$n; done 2> /dev/null`

const TAKE_INODES = `n=0; while :; do n=$((n + 1)); mkdir d$n; (cd d$n && seq 1000 | xargs touch); done`

const ATTACKS = [
  { what: "blocks", script: TAKE_BLOCKS },
  { what: "inodes", script: TAKE_INODES },
].slice(0, sized({ few: 1, all: 2 }))

/** `isWhole`: with what is the same on all backends. */
export const describeFullDisk = (flags: () => readonly string[], isWhole: boolean) =>
  describe("a disk without a free block and a free inode", () => {
    let disk: SmallDisk
    let server: Server
    beforeAll(async () => {
      disk = makeSmallDisk()
      server = await openServer(flags(), disk.directory)
    }, STAGE_DEADLINE_MS)
    afterAll(async () => {
      disk?.clear()
      await server?.close()
      disk?.remove()
    }, STAGE_DEADLINE_MS)

    const up = async (slug: string) => {
      const workspace = { slug, network: { kind: "none" as const } }
      const box = await server.client().sandboxes.create({ workspace })
      await box.ready({ deadlineMs: DEADLINE_MS })
      return box
    }
    const phases = async () =>
      Object.fromEntries(
        (await server.client().sandboxes.list()).map(({ identity, phase }) => [
          identity.workspace,
          phase,
        ]),
      )

    if (isWhole)
      it(
        "lets sandboxes be stopped and removed, a server start, and says why none is made",
        async () => {
          const [stopped, forced, removed, kept] = await Promise.all([
            up("stopped"),
            up("forced"),
            up("removed"),
            up("kept"),
          ])
          // An unused sandbox is stopped when the disk runs low.
          for (const box of [removed, kept]) await box.hold({ holder: "a person" })
          await forced.commands.start(["sleep", "1000"])
          const reserved = join(server.dataDir, "reserve")
          await expect.poll(() => sizeOf(reserved), WAIT).toBeGreaterThan(1_000_000)
          disk.fill()
          expect(disk.freeBytes()).toBe(0)

          await expect(up("refused")).rejects.toMatchObject({
            code: expect.stringMatching(/^(host\.exhausted|store\.disk_full)$/),
            hint: expect.stringContaining("Free"),
          })
          await stopped.stop()
          await forced.stop({ force: true })
          await removed.remove({ force: true })
          expect(await phases()).toMatchObject({ stopped: "gone", forced: "gone", kept: "ready" })

          await server.kill()
          await server.restart()
          await expect.poll(phases, WAIT).toMatchObject({ kept: "ready" })
          expect((await server.sandbox(kept.id).commands.run("echo alive")).stdout).toBe("alive\n")
          await server.sandbox(kept.id).remove({ force: true })

          disk.clear()
          await expect.poll(() => sizeOf(reserved), WAIT).toBeGreaterThan(1_000_000)
          await (await up("later")).remove({ force: true })
        },
        STAGE_DEADLINE_MS,
      )

    it.each(ATTACKS)(
      "is taken back from the sandbox that took its $what, while its neighbours go on",
      async ({ script }) => {
        disk.clear()
        const [neighbour, filler] = await Promise.all([up("neighbour"), up("filler")])
        await neighbour.hold({ holder: "a person" })
        await filler.commands.start(script)
        await expect.poll(phases, WAIT).toMatchObject({ filler: "paused", neighbour: "ready" })
        expect((await filler.why()).decisions[0]).toMatchObject({
          action: "keep",
          reason: expect.stringContaining("disk"),
        })
        expect((await neighbour.commands.run("echo alive")).stdout).toBe("alive\n")
        await server.kill()
        await server.restart()
        await expect.poll(phases, WAIT).toMatchObject({ filler: "paused", neighbour: "ready" })
        await server.sandbox(filler.id).remove({ force: true })
        await expect.poll(disk.freeBytes, WAIT).toBeGreaterThan(1_000_000_000)
        await expect.poll(disk.freeInodes, WAIT).toBeGreaterThan(40_000)
        await server.sandbox(neighbour.id).remove({ force: true })
      },
      STAGE_DEADLINE_MS,
    )
  })

/** Bytes of the disk that a file takes; 0 if it does not exist. */
const sizeOf = (directory: string): number =>
  512 * (statSync(join(directory, "7", "blocks"), { throwIfNoEntry: false })?.blocks ?? 0)
