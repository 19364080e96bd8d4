import { execFileSync } from "node:child_process"
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { dirname, join } from "node:path"
import type { Readable } from "node:stream"
import { groupFor } from "@berth/local/owned/account"
import { requires } from "@berth/testing/requires"
import { expect, it } from "vitest"
import { sendBundle } from "./bundle.ts"
import { findRef, openHostRepo } from "./host-repo.ts"
import { git, makeRepo, temporaryDirectory } from "./testing/host-repos.ts"

const ANN = 12_345
const BOB = 23_456
const never = new AbortController().signal

const give = (path: string, uid: number): void => {
  execFileSync("chown", ["-hR", `${uid}:${uid}`, path])
}

/** Makes a home of one user with a repo in it. The mode lets others in or not. */
const makeHome = (uid: number, mode: number) => {
  const repo = makeRepo()
  const home = dirname(repo.path)
  give(home, uid)
  chmodSync(home, mode)
  return { home, path: repo.path, head: repo.second }
}

const makeTwo = () => ({ ann: makeHome(ANN, 0o755), bob: makeHome(BOB, 0o700) })

/** Sends a bundle, and returns its commit and bytes. */
const send = async (path: string, ref?: string) => {
  const chunks: Buffer[] = []
  const take = async (bundle: Readable) => {
    for await (const chunk of bundle) chunks.push(chunk as Buffer)
  }
  const sent = await sendBundle({ path, ref, have: [] }, { send: take, signal: never })
  return { commit: sent.commit, bytes: Buffer.concat(chunks) }
}

const unusable = (problem: string) => ({
  code: "repo.host_unusable",
  details: { problem: expect.stringContaining(problem) },
})

requires("root").describe("a repo of one user", () => {
  it("is refused where a link of that user leads to a repo of another user or of root", async () => {
    const { ann, bob } = makeTwo()
    const root = makeRepo()
    symlinkSync(bob.path, join(ann.home, "bobs"))
    symlinkSync(root.path, join(ann.home, "roots"))
    symlinkSync(bob.home, join(ann.home, "folder"))
    for (const name of ["bobs", "roots", "folder"]) give(join(ann.home, name), ANN)
    for (const name of ["bobs", "roots", "folder/repo"])
      await expect(send(join(ann.home, name))).rejects.toMatchObject(
        unusable(`belongs to user ${ANN}, and what it leads to`),
      )
  })

  it("is served through links of its owner and of root, and below a sticky directory", async () => {
    const ann = makeHome(ANN, 0o755)
    symlinkSync("repo", join(ann.home, "mine"))
    give(join(ann.home, "mine"), ANN)
    const shared = temporaryDirectory()
    chmodSync(shared, 0o1777)
    symlinkSync(join(ann.home, "mine"), join(shared, "roots-link"))
    for (const path of [join(ann.home, "mine"), join(shared, "roots-link")])
      expect((await send(path)).commit).toBe(ann.head)
  })

  it("is refused below a directory in which every user may exchange it", async () => {
    const ann = makeHome(ANN, 0o777)
    await expect(send(ann.path)).rejects.toMatchObject(unusable("every user may write to"))
  })

  it("stays the same when its path is exchanged after it was opened", async () => {
    const { ann, bob } = makeTwo()
    const repo = await openHostRepo(ann.path, never)
    try {
      renameSync(ann.path, join(ann.home, "moved"))
      symlinkSync(bob.path, ann.path)
      expect((await findRef(repo, undefined, never)).commit).toBe(ann.head)
    } finally {
      repo.close()
    }
  })

  it.each<[string, (annsGit: string, bobsGit: string, head: string) => void]>([
    [
      "a .git file",
      (annsGit, bobsGit) => {
        rmSync(annsGit, { recursive: true })
        writeFileSync(annsGit, `gitdir: ${bobsGit}\n`)
      },
    ],
    [
      "a .git link",
      (annsGit, bobsGit) => {
        rmSync(annsGit, { recursive: true })
        symlinkSync(bobsGit, annsGit)
      },
    ],
    ["commondir", (annsGit, bobsGit) => writeFileSync(join(annsGit, "commondir"), `${bobsGit}\n`)],
    [
      "alternates",
      (annsGit, bobsGit, head) => {
        writeFileSync(join(annsGit, "objects/info/alternates"), `${bobsGit}/objects\n`)
        writeFileSync(join(annsGit, "refs/heads/main"), `${head}\n`)
      },
    ],
    [
      "linked objects",
      (annsGit, bobsGit, head) => {
        rmSync(join(annsGit, "objects"), { recursive: true })
        symlinkSync(join(bobsGit, "objects"), join(annsGit, "objects"))
        writeFileSync(join(annsGit, "refs/heads/main"), `${head}\n`)
      },
    ],
    [
      "a linked ref and alternates",
      (annsGit, bobsGit) => {
        writeFileSync(join(annsGit, "objects/info/alternates"), `${bobsGit}/objects\n`)
        rmSync(join(annsGit, "refs/heads/main"))
        symlinkSync(join(bobsGit, "refs/heads/main"), join(annsGit, "refs/heads/main"))
      },
    ],
  ])("does not send another user's private objects through %s", async (_, plant) => {
    const { ann, bob } = makeTwo()
    const bobsGit = join(bob.path, ".git")
    const blob = `bob's secret ${bob.home}`
    writeFileSync(join(bob.path, "secret"), blob)
    git(bob.path, "-c", "safe.directory=*", "add", "secret")
    git(bob.path, "-c", "safe.directory=*", "commit", "--quiet", "-m", "secret")
    const head = git(bob.path, "-c", "safe.directory=*", "rev-parse", "HEAD")
    give(bob.path, BOB)
    plant(join(ann.path, ".git"), bobsGit, head)
    give(ann.path, ANN)
    for (const ref of [undefined, "main", head]) {
      const sent = await send(ann.path, ref).catch((thrown: { code: string }) => thrown.code)
      expect(sent).toEqual(expect.stringMatching(/^repo\./))
    }
  })

  it("runs no program that its settings, hooks or attributes name with more rights than its owner's", async () => {
    const ann = makeHome(ANN, 0o755)
    const ran = join(ann.home, "ran")
    const program = join(ann.home, "program")
    writeFileSync(program, `#!/bin/sh\nid -u >> '${ran}'\nid -G >> '${ran}'\nexit 1\n`)
    chmodSync(program, 0o755)
    const settings = {
      "core.fsmonitor": program,
      "core.hooksPath": join(ann.home, "hooks"),
      "core.pager": program,
      "core.editor": program,
      "core.sshCommand": program,
      "core.askPass": program,
      "credential.helper": program,
      "uploadpack.packObjectsHook": program,
      "filter.evil.clean": program,
      "filter.evil.smudge": program,
      "filter.evil.process": program,
      "diff.external": program,
      "gpg.program": program,
      "alias.bundle": `!${program}`,
      "alias.rev-parse": `!${program}`,
      "include.path": "/root/.gitconfig",
    }
    for (const [name, value] of Object.entries(settings))
      git(ann.path, "-c", "safe.directory=*", "config", name, value)
    mkdirSync(join(ann.home, "hooks"))
    for (const hook of [
      "post-checkout",
      "reference-transaction",
      "pre-auto-gc",
      "post-index-change",
    ])
      symlinkSync(program, join(ann.home, "hooks", hook))
    writeFileSync(join(ann.path, ".gitattributes"), "* filter=evil diff=evil\n")
    give(ann.home, ANN)
    // A setting whose file its owner cannot read ends git; it is Ann's own harm.
    expect(await send(ann.path).catch(({ code }) => code)).toBe("repo.host_unusable")
    git(ann.path, "-c", "safe.directory=*", "config", "--unset", "include.path")
    give(ann.path, ANN)
    expect((await send(ann.path)).commit).toBe(ann.head)
    if (existsSync(ran)) expect(new Set(readFileSync(ran, "utf8").split("\n"))).not.toContain("0")
  })

  it("lends its owner no group that a set-group-id directory gave it", () => {
    const shared = temporaryDirectory()
    chownSync(shared, 0, 42)
    chmodSync(shared, 0o2777)
    execFileSync("setpriv", [
      ...[`--reuid=${ANN}`, `--regid=${ANN}`, "--clear-groups", "mkdir", join(shared, "repo")],
    ])
    const { uid, gid } = statSync(join(shared, "repo"))
    expect([uid, gid]).toEqual([ANN, 42])
    expect(groupFor(uid, gid)).toBe(65_534)
    expect(groupFor(0, 0)).toBe(0)
    expect(groupFor(1, 42)).not.toBe(42)
  })
})
