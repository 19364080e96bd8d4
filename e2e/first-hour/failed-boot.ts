import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { expect } from "vitest"
import { makeRepo } from "../boot/stage.ts"
import { type Case, commandsOn, type Server } from "./journey.ts"

const WHY =
  "step setup-hook failed: .berth/setup.sh failed: it ended with status 7; its last line: no compiler"

export const failedBoots = (server: () => Server): readonly Case[] => {
  const { berth } = commandsOn(server)

  return [
    {
      title: "a directory that is no repo is refused, and leaves no sandbox, workspace or layer",
      work: async () => {
        const plain = join(server().base, "plain")
        mkdirSync(plain)
        const layers = async () => (await berth("layers", "ls", "--json")).stdout
        const before = await layers()
        for (const directory of ["/etc", plain]) {
          const refused = await berth("up", directory, "--network", "none")
          expect(refused).toMatchObject({ status: 1, stdout: "" })
          expect(refused.stderr).toContain("the repo on the host cannot be used")
        }
        expect((await berth("ps")).stdout).toBe("There is no sandbox: berth up makes one.\n")
        for (const name of ["etc", "plain"])
          await expect(server().client().workspaces.get(name)).rejects.toMatchObject({
            code: "not_found",
          })
        expect(await layers()).toBe(before)
      },
    },
    {
      title:
        "[R2.9] a failed boot can be looked into, mended in its sandbox, forked as it stands, and retried",
      work: async () => {
        const { base } = server()
        const repo = makeRepo(join(base, "app"), {
          ".berth/setup.sh":
            "#!/bin/sh\ntouch begun\nsleep 1000 &\nsetsid -f env -i sleep 1000\necho no compiler >&2\nexit 7\n",
        })
        const up = ["up", repo, "--network", "none"]
        const failed = await berth(...up)
        expect(failed).toMatchObject({ status: 1, stdout: "" })
        expect(failed.stderr).toContain(WHY)
        expect(failed.stderr).toContain("berth up --retry")

        const count = "ls; cat /proc/[0-9]*/comm | grep -c sleep"
        const [ps, inside, again, run] = await Promise.all([
          berth("ps"),
          berth("exec", "app", "--", "sh", "-c", count),
          berth(...up),
          berth("run", "--workspace", "app", "true"),
        ])
        expect(ps.stdout).toMatch(/ app +failed .*setup-hook.*no compiler/)
        expect(inside).toMatchObject({ stdout: "begun\n0\n", stderr: "" })
        for (const refused of [again, run]) {
          expect(refused).toMatchObject({ status: 1 })
          expect(refused.stderr).toContain(WHY)
        }
        await expect.poll(async () => (await berth("why", "app")).stdout).toContain(WHY)

        await server().kill()
        await server().restart()
        expect((await berth("ps")).stdout).toMatch(/ app +failed .*setup-hook.*no compiler/)
        const mended = join(base, "mended.sh")
        writeFileSync(mended, "#!/bin/sh\ntest -e begun && touch done\n", { mode: 0o755 })
        expect(await berth("cp", mended, "app:app/.berth/setup.sh")).toMatchObject({ status: 0 })
        const copy = join(base, "copy.sh")
        expect(await berth("cp", "app:app/.berth/setup.sh", copy)).toMatchObject({ status: 0 })
        expect(readFileSync(copy, "utf8")).toContain("touch done")

        // The copy boots on the mended files; the original waits for its own retry.
        expect(await berth("fork", "app", "copy")).toMatchObject({ status: 0 })
        expect((await berth("ps")).stdout).toMatch(/ app +failed [\s\S]* copy +ready /)
        const retried = await berth(...up, "--retry")
        expect(retried.stderr).toContain("app is ready")
        expect(retried.status).toBe(0)
        const list = await Promise.all(
          ["app", "copy"].map((name) => berth("exec", name, "--", "sh", "-c", "ls")),
        )
        expect(list.map(({ stdout }) => stdout)).toEqual(["begun\ndone\n", "begun\ndone\n"])
        expect(await berth("rm", "app", "copy")).toMatchObject({ status: 0 })
        // A hook's output can hold secrets: the server passes it on, and logs none of it.
        expect(server().log.filter((line) => line.includes("no compiler"))).toEqual([])
      },
    },
  ]
}
