import { execFileSync } from "node:child_process"
import { existsSync, mkdirSync, readFileSync, symlinkSync } from "node:fs"
import { join } from "node:path"
import { Readable } from "node:stream"
import { describe, expect, it } from "vitest"
import { localGit } from "./local-git.ts"
import { makeDir } from "./testing/berth.ts"

const { signal } = new AbortController()

const makeRepo = () => {
  const base = makeDir()
  const directory = join(base, "repo")
  mkdirSync(directory)
  execFileSync("git", ["init", "--quiet", directory])
  const apply = (patch: string) =>
    localGit({
      directory,
      args: ["apply", "-"],
      input: Readable.from([Buffer.from(patch)]),
      signal,
    })
  return { base, directory, apply }
}

/** A patch that makes a file of one line. */
const making = (path: string, mode = "100644", text = "mine") =>
  `diff --git a/${path} b/${path}\nnew file mode ${mode}\n--- /dev/null\n+++ b/${path}\n@@ -0,0 +1 @@\n+${text}\n`

describe("a patch of a sandbox's choosing", () => {
  it.each(["../outside", ".git/hooks/post-checkout", "a/../../outside", ".GIT/config"])(
    "makes no file at %s, and no other file",
    async (path) => {
      const { directory, apply } = makeRepo()
      await expect(apply(making("fine") + making(path))).rejects.toMatchObject({
        code: "repo.local_refused",
      })
      expect(existsSync(join(directory, "fine"))).toBe(false)
      expect(existsSync(join(directory, path))).toBe(false)
    },
  )

  it("is not written through a link, neither an existing one nor one of the patch itself", async () => {
    const { base, directory, apply } = makeRepo()
    mkdirSync(join(base, "elsewhere"))
    symlinkSync("../elsewhere", join(directory, "link"))
    await expect(apply(making("link/file"))).rejects.toMatchObject({ code: "repo.local_refused" })
    const both = making("other", "120000", "../elsewhere") + making("other/file")
    await expect(apply(both)).rejects.toMatchObject({ code: "repo.local_refused" })
    expect(existsSync(join(base, "elsewhere/file"))).toBe(false)
  })

  it("is applied where it stays in the repo", async () => {
    const { directory, apply } = makeRepo()
    await apply(making("deep/file"))
    expect(readFileSync(join(directory, "deep/file"), "utf8")).toBe("mine\n")
  })
})
