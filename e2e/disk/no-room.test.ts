import { createReadStream, createWriteStream, readdirSync } from "node:fs"
import { join } from "node:path"
import { PassThrough } from "node:stream"
import { buffer } from "node:stream/consumers"
import { zstdDecompressSync } from "node:zlib"
import { BerthError } from "@berth/protocol/errors"
import { type SandboxId, Slug } from "@berth/protocol/ids"
import { WorkspaceSpec } from "@berth/protocol/workspace"
import { requires } from "@berth/testing/requires"
import { sampled } from "@berth/testing/sampled"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { setStage } from "../boot/stage.ts"
import { startEngine } from "../docker/engine.ts"
import { giveBack, makePlainDisk, takeAllBut } from "./small-disk.ts"

const STAGE_DEADLINE_MS = 180_000
const MIB = 1024 * 1024
const DISK_BYTES = 128 * MIB
const WAIT = { timeout: 60_000 }
const { signal } = new AbortController()

/** Each leaves so much that something else is the first to find no room. */
const LEFT_BYTES = [0, 16_384, 65_536]
const ACTS = ["up", "up again", "fork", "import"] as const
const KEPT = "kept by the workspace"

interface Host {
  readonly choice?: Parameters<typeof setStage>[1]
  /** The disks by their names; the first one has the data directory. */
  readonly disks: Readonly<Record<string, string>>
  /** A disk without which an image cannot be looked at for the first time. */
  readonly imageDisk?: string
  readonly containers: () => Promise<number>
  readonly close: () => Promise<void>
}

/**
 * The server refuses new sandboxes while its disk has little room. So that it meets the full disk in the middle of its
 * work, what is left of the host is not read here.
 */
const describeNoRoom = (
  backend: string,
  open: () => Promise<Host>,
  full: readonly (readonly string[])[],
  few: number,
) =>
  describe(`sandboxes on a full disk, ${backend}`, () => {
    let host: Host
    let stage: Awaited<ReturnType<typeof setStage>>
    let base: SandboxId
    let archive: string
    let names = 0
    beforeAll(async () => {
      host = await open()
      const [directory] = Object.values(host.disks)
      stage = await setStage(signal, host.choice, {
        ...(directory && { directory }),
        hasReserve: true,
      })
      if (host.imageDisk !== undefined) {
        takeAllBut(host.imageDisk, 0)
        await expect(up("base")).rejects.toMatchObject({ code: "backend.disk_full" })
        giveBack(host.imageDisk)
      }
      base = await upWithFile("base")
      await sandboxes().requests.stop(await upWithFile("stopped"), { force: true })
      archive = join(stage.base, "archive")
      await sandboxes().copies.exportTo(Slug.parse("base"), createWriteStream(archive), signal)
    }, STAGE_DEADLINE_MS)
    afterAll(async () => {
      for (const directory of Object.values(host?.disks ?? {})) giveBack(directory)
      if (base !== undefined) await sandboxes().requests.remove(base, { force: true })
      await stage?.close()
      await host?.close()
    }, STAGE_DEADLINE_MS)

    const sandboxes = () => stage.standalone.sandboxes
    const up = (slug: string) => {
      const spec = WorkspaceSpec.parse({ slug, network: { kind: "none" } })
      return sandboxes().workspaces.up(spec, { mode: "fresh" }, signal)
    }
    const upWithFile = async (slug: string) => {
      const { sandbox } = await up(slug)
      await sandboxes().running.booted(sandbox, signal)
      await sandboxes().running.putFile(sandbox, "/workspace/kept", Buffer.from(KEPT), signal)
      return sandbox
    }
    const filesOf = async (slug: string) => {
      const archived = new PassThrough()
      const [bytes] = await Promise.all([
        buffer(archived),
        sandboxes().copies.exportTo(Slug.parse(slug), archived, signal),
      ])
      return zstdDecompressSync(bytes).toString("latin1")
    }
    const act = {
      up,
      "up again": () => up("stopped"),
      fork: (slug: string) =>
        sandboxes().copies.fork(base, Slug.parse(slug), { onProgress: () => {}, signal }),
      import: (slug: string) =>
        sandboxes().copies.importFrom(Slug.parse(slug), createReadStream(archive), signal),
    }
    const remains = async () => ({
      sandboxes: (await stage.standalone.backend.list()).map(({ identity }) => identity.sandbox),
      containers: await host.containers(),
      half: ["incoming", "pins"].flatMap((name) =>
        readdirSync(join(stage.dataDir, "layers", name)),
      ),
    })

    const cases = full.flatMap((disks) =>
      LEFT_BYTES.flatMap((leftBytes) => ACTS.map((what) => ({ what, leftBytes, disks }))),
    )
    it.each(
      sampled(`acts without room, ${backend}`, cases, few).map((it) => ({
        ...it,
        on: it.disks.join(" and "),
      })),
    )(
      "$what with $leftBytes bytes left for $on says what to do, leaves nothing, and works when there is room",
      async ({ what, leftBytes, disks }) => {
        const slug = what === "up again" ? "stopped" : `new-${++names}`
        await stage.reserve.fill()
        const before = await remains()
        for (const disk of disks) takeAllBut(host.disks[disk] ?? "", leftBytes)
        const failure = await act[what](slug).then(
          () => undefined,
          (thrown: unknown) => thrown,
        )
        for (const disk of disks) giveBack(host.disks[disk] ?? "")
        if (leftBytes === 0) expect(failure).toBeInstanceOf(BerthError)
        if (failure !== undefined) {
          expect(failure).toMatchObject({
            code: expect.stringMatching(/^((store|backend|layers)\.disk_full|sandbox\.halted)$/),
            hint: expect.stringContaining("the disk that holds the data directory"),
          })
          await expect.poll(remains, WAIT).toEqual(before)
          const isNew = what === "fork" || what === "import"
          if (isNew)
            await expect(sandboxes().workspaces.get(Slug.parse(slug))).rejects.toThrow(slug)
        }
        // All stand still for a moment while it is found out who filled the disk.
        await expect.poll(() => sandboxes().running.haltOf(base), WAIT).toBeUndefined()
        const { sandbox } = failure === undefined ? await up(slug) : await act[what](slug)
        await sandboxes().running.booted(sandbox, signal)
        if (what !== "up") expect(await filesOf(slug)).toContain(KEPT)
        expect(await filesOf("base")).toContain(KEPT)
        if (what === "up again") await sandboxes().requests.stop(sandbox, { force: true })
        else await sandboxes().requests.remove(sandbox, { force: true })
      },
      STAGE_DEADLINE_MS,
    )
  })

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces").describe("embedded", () => {
  const open = async () => {
    const disk = makePlainDisk(DISK_BYTES)
    return {
      disks: { "the data directory": disk.directory },
      containers: async () => 0,
      close: async () => disk.remove(),
    }
  }
  describeNoRoom("embedded", open, [["the data directory"]], 2)
})

requires("root", "docker", "tini").describe("docker", () => {
  const open = async () => {
    const disk = makePlainDisk(DISK_BYTES)
    const engine = await startEngine({ diskBytes: DISK_BYTES })
    return {
      choice: engine.choice,
      disks: { "the data directory": disk.directory, "the engine": engine.data },
      imageDisk: engine.data,
      containers: async () => (await engine.containers()).length + (await engine.volumes()).length,
      close: async () => {
        await engine.stop()
        disk.remove()
      },
    }
  }
  const both = ["the data directory", "the engine"]
  describeNoRoom("docker", open, [["the data directory"], ["the engine"], both], 2)
})
