import { spawnSync } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { beforeEach, expect, it, onTestFinished } from "vitest"
import { hostAddress } from "./repos/host-bundle.ts"
import { commit, run } from "./repos/testing/upstream.ts"

const HELPER = join(import.meta.dirname, "git-remote-berth-host.ts")

let root: string
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "berth-remote-"))
  onTestFinished(() => rmSync(root, { recursive: true, force: true }))
  const program = `#!/bin/sh\nexec '${process.execPath}' '${HELPER}' "$@"\n`
  writeFileSync(join(root, "git-remote-berth-host"), program, { mode: 0o755 })
})

it.each([["push"], ["fetch"], ["pull"]])(
  "the git helper names the commands to run on the host instead of a git %s",
  (verb) => {
    run(root, "init", "--quiet", "-b", "main", "web")
    const repo = join(root, "web")
    const head = commit(repo, { "README.md": "one\n" })
    run(repo, "remote", "add", "origin", hostAddress("web"))
    run(repo, "update-ref", "refs/remotes/origin/main", head)
    run(repo, "branch", "--quiet", "--set-upstream-to=origin/main")
    const env = { PATH: `${root}:${process.env.PATH}`, HOME: root, GIT_CONFIG_NOSYSTEM: "1" }
    const { status, stderr } = spawnSync("git", [verb], { cwd: repo, env, encoding: "utf8" })
    expect(status).not.toBe(0)
    expect(stderr).toMatch(
      /^fatal: the repo on the host cannot be reached from inside the sandbox\.$/m,
    )
    expect(stderr).toContain("berth fetch WORKSPACE ")
    expect(stderr).toContain("berth apply WORKSPACE ")
  },
)
