import { readFileSync, statSync } from "node:fs"
import { join } from "node:path"
import type { WorkspaceLimits } from "@berth/protocol/limits"
import type { Sandbox } from "@berth/sdk/sandboxes"
import { sampled } from "@berth/testing/sampled"
import { sampledCases } from "@berth/testing/sampled-cases"
import { afterAll, beforeAll, expect, it } from "vitest"
import { type BackendName, flagsOf } from "../backends.ts"
import { openServer } from "../sandboxes/server.ts"
import { eventsUntil } from "../sessions/stage.ts"
import { makeSmallDisk, type SmallDisk } from "./small-disk.ts"

type Server = Awaited<ReturnType<typeof openServer>>

/** Covers the making of a server, sandboxes and a file system beside other tests. */
const STAGE_DEADLINE_MS = 180_000
const DEADLINE_MS = 60_000
const WAIT = { timeout: DEADLINE_MS, interval: 50 }

/** Takes the disk in leaps that are too fast to be watched, then everything that becomes free again, for ever. */
const TAKE_BLOCKS = `
  for size in 1G 256M 64M 16M 4M 1M 256K 64K 16K 4K; do
    n=0; while fallocate -l $size fill-$size-$n; do n=$((n + 1)); done
  done
  while :; do n=$((n + 1)); cat /dev/zero > zero-$n; done 2> /dev/null`

const TAKE_INODES = `n=0; while :; do n=$((n + 1)); mkdir d$n; (cd d$n && seq 1000 | xargs touch); done`

/** Makes files for ever, at a pace that can be watched. */
const MAKE_FILES = `n=0; while :; do n=$((n + 1)); mkdir d$n; (cd d$n && seq 1000 | xargs touch); sleep 0.5; done`

/** Writes for ever, at a pace that can be watched. */
const STEP_BYTES = 10_000_000
const WRITE_ON = `while :; do head -c ${STEP_BYTES} /dev/zero >> zero; sleep 0.1; done`

/** Writes that many megabytes, and lives on. */
const writing = (megabytes: number, path = "zero"): string =>
  `head -c ${megabytes}000000 /dev/zero > ${path}; sleep 1000`

/** Fills a file without a name, which a look at files does not find. */
const TAKE_NAMELESS = "exec 9> gone; rm gone; cat /dev/zero >&9; sleep 1000"

const ATTACKS = [
  { what: "blocks", script: TAKE_BLOCKS },
  { what: "inodes", script: TAKE_INODES },
  { what: "blocks for a file without a name", script: TAKE_NAMELESS },
]

export const describeFullDisk = (backend: BackendName): void => {
  let disk: SmallDisk
  let server: Server
  beforeAll(async () => {
    disk = makeSmallDisk()
    server = await openServer(await flagsOf(backend), disk.directory)
  }, STAGE_DEADLINE_MS)
  afterAll(async () => {
    disk?.clear()
    await server?.close()
    disk?.remove()
  }, STAGE_DEADLINE_MS)

  const create = (slug: string, limits: Partial<WorkspaceLimits> = {}) =>
    server.client().sandboxes.create({ workspace: { slug, network: { kind: "none" }, limits } })
  const up = async (slug: string, limits?: Partial<WorkspaceLimits>) => {
    const box = await create(slug, limits)
    await box.ready({ deadlineMs: DEADLINE_MS })
    return box
  }
  /** The bytes that a sandbox takes, as the server has noted them. */
  const measuredBytes = ({ id }: Sandbox): number => {
    const noted = readFileSync(join(server.dataDir, "disk-usage.json"), "utf8")
    const all = JSON.parse(noted) as { sandbox: string; bytes: number }[]
    return all.find(({ sandbox }) => sandbox === id)?.bytes ?? 0
  }
  const phases = async () =>
    Object.fromEntries(
      (await server.client().sandboxes.list()).map(({ identity, phase }) => [
        identity.workspace,
        phase,
      ]),
    )

  it.each(sampled(`ways to fill a disk, ${backend}`, ATTACKS, 1))(
    "has the sandbox halted that took its $what until a person makes room, while its neighbour goes on",
    async ({ script }) => {
      disk.clear()
      const neighbour = await up("neighbour")
      await neighbour.hold({ holder: "a person" })
      // The neighbour takes more than it leaves for the filler.
      await neighbour.commands.run("fallocate -l 1100M large")
      await expect.poll(() => measuredBytes(neighbour), WAIT).toBeGreaterThan(1_000_000_000)
      const filler = await up("filler")
      await filler.commands.start(script)
      await expect.poll(phases, WAIT).toMatchObject({ filler: "halted", neighbour: "ready" })
      // Docker's engine mounts overlays as root, for whom the file system keeps a part.
      if (backend === "embedded")
        expect(disk.freeBytesOfRoot()).toBeGreaterThan(0.95 * disk.rootsBytes)
      expect((await filler.why()).decisions[0]).toMatchObject({
        action: "keep",
        reason: expect.stringContaining("disk"),
      })
      // The disk is full until the server has found the filler and given up a part of its reserve.
      const said = () =>
        neighbour.commands.run("echo alive").catch(({ code }) => ({ stdout: code }))
      await expect.poll(async () => (await said()).stdout, WAIT).toBe("alive\n")
      await server.kill()
      await server.restart()
      await expect.poll(phases, WAIT).toMatchObject({ filler: "halted", neighbour: "ready" })
      const halted = server.sandbox(filler.id)
      await halted.makeRoom()
      await halted.commands.run("rm -rf /workspace/* /workspace/.[a-z]*")
      await expect.poll(phases, WAIT).toMatchObject({ filler: "ready" })
      await server.sandbox(neighbour.id).remove({ force: true })
      await expect.poll(disk.freeBytes, WAIT).toBeGreaterThan(1_000_000_000)
      await expect.poll(disk.freeInodes, WAIT).toBeGreaterThan(40_000)
      await halted.remove({ force: true })
    },
    STAGE_DEADLINE_MS,
  )

  sampledCases(`further cases of a full disk, ${backend}`, 1, (further) => {
    further(
      "lets sandboxes be stopped and removed and a server start, and has new sandboxes refused with the reason",
      async () => {
        disk.clear()
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

        const client = server.client()
        for (const act of [
          () => up("refused"),
          () => kept.fork("refused"),
          () => client.workspaces.importFiles("refused", Buffer.from("no archive")),
        ])
          await expect(act()).rejects.toMatchObject({
            code: expect.stringMatching(/^(host\.exhausted|(store|layers)\.disk_full)$/),
            hint: expect.stringContaining("Free"),
          })
        await expect(client.workspaces.get("refused")).rejects.toThrow("refused")
        await stopped.stop()
        await forced.stop({ force: true })
        await removed.remove({ force: true })
        // All sandboxes stand still for a moment while the server finds out which one fills the disk.
        const ended = { stopped: "gone", forced: "gone", kept: "ready" }
        await expect.poll(phases, WAIT).toMatchObject(ended)

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

    further(
      "is taken by a sandbox up to the limits of its workspace, and a person can free room in it",
      async () => {
        disk.clear()
        const isHalted = (box: Sandbox) => expect.poll(async () => (await box.get()).halted, WAIT)
        const limits = { diskBytes: 100_000_000, diskInodes: 20_000 }
        const [bounded, sly, many] = await Promise.all([
          up("bounded", limits),
          up("sly", limits),
          up("many", limits),
        ])
        const writer = await bounded.commands.start(WRITE_ON)
        await isHalted(bounded).toMatch(
          /^its files take \d+(\.\d)? [MG]B of the 100 MB that limits\.diskBytes allows$/,
        )
        const leftBytes = disk.freeBytes()
        expect(await phases()).toMatchObject({ bounded: "halted" })
        await expect(bounded.commands.run("true")).rejects.toMatchObject({
          code: "sandbox.halted",
          message: expect.stringContaining("limits.diskBytes"),
        })
        expect(await bounded.why()).toMatchObject({
          phase: "halted",
          halted: expect.stringContaining("of the 100 MB"),
        })
        const shown = (await server.berth(["ps"])).stdout.toString()
        expect(shown).toMatch(/bounded +halted +\S.* its files take .* limits\.diskBytes allows/)

        // The sandbox stands still, and a higher limit lets it go on as it was.
        expect(leftBytes - disk.freeBytes()).toBeLessThan(2 * STEP_BYTES)
        // The writer may have reached the higher limit before the sandbox is seen ready.
        await create("bounded", { ...limits, diskBytes: 300_000_000 })
        await isHalted(bounded).toContain("of the 300 MB")
        await up("bounded", { ...limits, diskBytes: 1_500_000_000 })
        expect((await bounded.commands.get(writer.id)).exit).toBeNull()
        await bounded.remove({ force: true })

        // The server finds a file without a name by the process that has it open.
        await sly.commands.start(`exec 9> gone; rm gone; ${writing(200, "/dev/fd/9")}`)
        const session = await server.client().sessions.create({ workspace: "many" })
        await session.prompt(MAKE_FILES)
        await isHalted(sly).toContain("limits.diskBytes")
        await isHalted(many).toMatch(/^it has [\d,]+ files of the 20,000 that limits/)

        await eventsUntil(
          session,
          (body) => body.type === "warning" && body.message.includes("limits.diskInodes"),
        )

        const told = await server.berth(["make-room", "many"])
        expect(told).toMatchObject({ status: 0, stderr: expect.stringContaining("15 min") })
        expect((await many.commands.run("rm -rf d* && ls | wc -l")).stdout).toBe("0\n")
        expect(await phases()).toMatchObject({ sly: "halted", many: "ready" })
        await expect(many.makeRoom()).rejects.toMatchObject({ code: "sandbox.not_halted" })

        // A sandbox that grows on meanwhile is halted again.
        await sly.makeRoom()
        await sly.commands.start(writing(300))
        await isHalted(sly).toContain("limits.diskBytes")
        for (const box of [sly, many]) await box.remove({ force: true })
      },
      STAGE_DEADLINE_MS,
    )
  })
}

/** Bytes of the disk that a file takes; 0 if it does not exist. */
const sizeOf = (directory: string): number =>
  512 * (statSync(join(directory, "7", "blocks"), { throwIfNoEntry: false })?.blocks ?? 0)
