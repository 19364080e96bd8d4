import { execFileSync } from "node:child_process"
import { mkdtempSync, rmdirSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type Lack, openShortage } from "@berth/host/shortage"
import type { SandboxId } from "@berth/protocol/ids"
import { sampledCases } from "@berth/testing/sampled-cases"
import { beforeAll, describe, expect, onTestFinished } from "vitest"
import type { Stage } from "./stage.ts"

const DISK: Lack = { of: "disk", words: "the disk has 300 MB left" }

export const describePressure = (
  staged: () => Stage,
  { backend, few }: { readonly backend: string; readonly few: number },
) =>
  describe("a host that runs short", () => {
    let stage: Stage
    beforeAll(() => {
      stage = staged()
    })
    const { signal } = new AbortController()
    const phaseOf = async (sandbox: SandboxId) =>
      (await stage.sandboxes.views.get(sandbox, signal)).phase

    sampledCases(`cases of a host that runs short, ${backend}`, few, (it) => {
      it("takes no new sandbox while its disk is nearly full, with the reason, and takes one afterwards", async () => {
        const disk = makeDisk("200m")
        const held = await stage.up({ slug: "held" })
        const hold = await stage.sandboxes.requests.hold(held, { holder: "a person" }, signal)
        await stage.whileShort(openShortage(disk), async () => {
          await expect(stage.up({ slug: "refused" })).rejects.toMatchObject({
            code: "host.exhausted",
            message: expect.stringMatching(
              /no room for another sandbox: the disk has (199|2\d\d) MB left/,
            ),
          })
          const known = (await stage.sandboxes.views.list(signal)).map(
            ({ identity }) => identity.workspace,
          )
          expect(known).not.toContain("refused")
          expect(await phaseOf(held)).toBe("ready")
          // A sandbox that is there is given again: nothing new is begun for it.
          expect(await stage.up({ slug: "held" })).toBe(held)

          execFileSync("mount", ["-o", "remount,size=2g", disk])
          expect(await phaseOf(await stage.up({ slug: "refused" }))).toBe("ready")
        })
        await stage.sandboxes.requests.release(held, hold.id)
      })

      it("stops the sandbox that has been unused for longest and no other, keeps its files, and takes a new one", async () => {
        const [first, second, used] = await upAll(stage, ["first", "second", "used"])
        await stage.run(first, "echo kept > file")
        const hold = await stage.sandboxes.requests.hold(used, { holder: "a person" }, signal)
        const isStopped = async () => (await phaseOf(first)) === "gone"
        await stage.whileShort(
          async () => ((await isStopped()) ? undefined : DISK),
          () => stage.up({ slug: "wanted" }),
        )
        expect(await Promise.all([first, second, used].map(phaseOf))).toEqual([
          ...["gone", "ready", "ready"],
        ])
        const { decisions } = await stage.sandboxes.views.why(first)
        expect(decisions.map(({ reason }) => reason)).toContain(`${DISK.words}, and nobody uses it`)
        expect(await stage.run(await stage.up({ slug: "first" }), "cat file")).toBe("kept\n")
        await stage.sandboxes.requests.release(used, hold.id)
      })

      it("removes the cache that has been unused for longest, and none that a sandbox has", async () => {
        const caches = { caches: ["npm" as const] }
        for (const slug of ["older", "newer"])
          await stage.sandboxes.requests.stop(await stage.up({ slug, ...caches }), { force: true })
        const busy = await stage.up({ slug: "busy", ...caches })
        const hold = await stage.sandboxes.requests.hold(busy, { holder: "a person" }, signal)
        const left = async () =>
          (await stage.backend.listCaches()).map(({ workspace }): string => workspace)
        await stage.whileShort(
          async () => ((await left()).includes("older") ? DISK : undefined),
          () => stage.up({ slug: "wanted-too" }),
        )
        expect(await left()).toEqual(expect.arrayContaining(["busy", "newer"]))
        expect(stage.lines.join("")).toContain("the npm cache of older is removed")
        await stage.sandboxes.requests.release(busy, hold.id)
      })
    })
  })

/** Removes all sandboxes, and makes new ones one after another, so that the first has been unused for longest. */
const upAll = async (stage: Stage, slugs: [string, string, string]) => {
  const { signal } = new AbortController()
  for (const { identity } of await stage.sandboxes.views.list(signal))
    await stage.sandboxes.requests.remove(identity.sandbox, { force: true })
  const [first, second, third] = slugs
  return [
    await stage.up({ slug: first }),
    await stage.up({ slug: second }),
    await stage.up({ slug: third }),
  ] as const
}

/** Mounts an empty disk in memory. */
const makeDisk = (size: string): string => {
  const disk = mkdtempSync(join(tmpdir(), "berth-small-disk-"))
  execFileSync("mount", ["-t", "tmpfs", "-o", `size=${size}`, "tmpfs", disk])
  onTestFinished(() => {
    execFileSync("umount", [disk])
    rmdirSync(disk)
  })
  return disk
}
