import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { requires } from "@berth/testing/requires"
import { afterAll, beforeAll, expect, it } from "vitest"
import { makeRepo } from "../boot/stage.ts"
import { useSharedEngine } from "../docker/engine.ts"
import { openServer } from "../sandboxes/server.ts"

/** An engine starts, a toolbox is built, and sandboxes boot beside other tests. */
const STAGE_DEADLINE_MS = 180_000

const WHY =
  "step setup-hook failed: .berth/setup.sh failed: it ended with status 7; its last line: no compiler"

const journeys = (flags: () => Promise<readonly string[]>): void => {
  let server: Awaited<ReturnType<typeof openServer>>
  const berth = async (...args: readonly string[]) => {
    const { stdout, stderr, status } = await server.berth(args)
    return { stdout: stdout.toString(), stderr, status }
  }
  beforeAll(async () => {
    server = await openServer(await flags())
  }, STAGE_DEADLINE_MS)
  afterAll(() => server?.close(), STAGE_DEADLINE_MS)

  it("leaves nothing of a directory that is no repo", async () => {
    const plain = join(server.base, "plain")
    mkdirSync(plain)
    const layers = async () => (await berth("layers", "ls", "--json")).stdout
    const before = await layers()
    for (const directory of ["/etc", plain]) {
      const refused = await berth("up", directory, "--network", "none")
      expect(refused).toMatchObject({ status: 1, stdout: "" })
      expect(refused.stderr).toContain("the repo on the host cannot be used")
    }
    expect((await berth("ps")).stdout).toBe("There is no sandbox: berth up makes one.\n")
    await expect(server.client().workspaces.get("etc")).rejects.toMatchObject({ code: "not_found" })
    expect(await layers()).toBe(before)
  })

  it(
    "[R2.9] can be looked at and mended inside, and goes on from there",
    async () => {
      const repo = makeRepo(join(server.base, "app"), {
        ".berth/setup.sh":
          "#!/bin/sh\ntouch begun\nsleep 1000 &\nsetsid -f env -i sleep 1000\necho no compiler >&2\nexit 7\n",
      })
      const up = ["up", repo, "--network", "none"]
      const failed = await berth(...up)
      expect(failed).toMatchObject({ status: 1, stdout: "" })
      expect(failed.stderr).toContain(WHY)
      expect(failed.stderr).toContain("berth up --retry")

      expect((await berth("ps")).stdout).toMatch(/ app +failed .*setup-hook.*no compiler/)
      await expect.poll(async () => (await berth("why", "app")).stdout).toContain(WHY)
      const inside = await berth(
        "exec",
        "app",
        "--",
        "sh",
        "-c",
        "ls; cat /proc/[0-9]*/comm | grep -c sleep",
      )
      expect(inside).toMatchObject({ stdout: "begun\n0\n", stderr: "" })

      const again = await berth(...up)
      expect(again).toMatchObject({ status: 1 })
      expect(again.stderr).toContain(WHY)
      const run = await berth("run", "--workspace", "app", "true")
      expect(run).toMatchObject({ status: 1 })
      expect(run.stderr).toContain(WHY)

      await server.kill()
      await server.restart()
      expect((await berth("ps")).stdout).toMatch(/ app +failed .*setup-hook.*no compiler/)
      const mended = join(server.base, "mended.sh")
      writeFileSync(mended, "#!/bin/sh\ntest -e begun && touch done\n", { mode: 0o755 })
      expect(await berth("cp", mended, "app:app/.berth/setup.sh")).toMatchObject({ status: 0 })
      const copy = join(server.base, "copy.sh")
      expect(await berth("cp", "app:app/.berth/setup.sh", copy)).toMatchObject({ status: 0 })
      expect(readFileSync(copy, "utf8")).toContain("touch done")

      const retried = await berth(...up, "--retry")
      expect(retried.stderr).toContain("app is ready")
      expect(retried.status).toBe(0)
      expect((await berth("exec", "app", "--", "sh", "-c", "ls")).stdout).toBe("begun\ndone\n")
      expect(await berth("rm", "app")).toMatchObject({ status: 0 })
      // What a hook writes can hold secrets: the server passes it on, and logs none of it.
      expect(server.log.filter((line) => line.includes("no compiler"))).toEqual([])
    },
    STAGE_DEADLINE_MS,
  )
}

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces").describe(
  "a failed boot, embedded",
  () => {
    journeys(async () => [])
  },
)

requires("root", "docker", "tini").describe("a failed boot, on Docker", () => {
  journeys(async () => (await useSharedEngine()).flags)
})
