import { once } from "node:events"
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { directory, file, link, makeArchive, withXattr } from "@berth/layers/testing/archive"
import { sampledCases } from "@berth/testing/sampled-cases"
import { beforeAll, expect, it, onTestFinished, vi } from "vitest"
import type { BackendName } from "../backends.ts"
import { makeRepo } from "../boot/stage.ts"
import type { setStage } from "../leases/stage.ts"

type Stage = Awaited<ReturnType<typeof setStage>>

const DEADLINE_MS = 60_000
/** Moves to the start of the line and clears it. */
const NEW_LINE = "\\r\\u001b\\[K"
const WAIT = { timeout: DEADLINE_MS }

/** Makes an untracked line that moves while an archive is sent and its files are written, and is gone when they are. */
const PROGRESS = new RegExp(
  `^(${NEW_LINE}(sending the archive|the files are being written to disk)(: [^\\r]+)?)+${NEW_LINE}to is ready\\n$`,
)

/** A file, folder and link, and changes tracked files in each way. */
const WORK = `
cd /workspace/app; echo changed >> README; rm GONE; mkdir -p new/deep; echo new > new/deep/file; ln -s new/deep/file link
chmod 700 new/deep/file; echo at home > ~/kept; git config user.name me`

const LOOK = `
cd /workspace/app; cat README new/deep/file ~/kept; readlink link; stat -c '%a %U' new/deep/file ~; git status --short; git config user.name`

export const archives = (stage: () => Stage, backend: BackendName): void => {
  let repo: string
  let archive: string
  let looked: string
  beforeAll(async () => {
    const { base, told, sandbox } = stage()
    repo = makeRepo(join(base, "moved/app"), { README: "hello\n", GONE: "gone\n" })
    archive = join(base, "app.tar.zst")
    const from = (await told("up", repo, "--name", "from", "--network", "none")).stdout.trim()
    await sandbox(from).commands.run(WORK)
    looked = (await sandbox(from).commands.run(LOOK)).stdout
    const exported = await told("layers", "export", "from", archive, "--json")
    expect(exported).toMatchObject({ status: 0, stderr: "" })
    const bytes = readFileSync(archive).length
    expect(JSON.parse(exported.stdout)).toEqual({ workspace: "from", file: archive, bytes })
  }, DEADLINE_MS)

  const put = async (slug: string, body: Buffer) => {
    const { url, token } = stage().access()
    const reply = await fetch(`${url}/v1/workspaces/${slug}/archive`, {
      method: "PUT",
      headers: { authorization: `Bearer ${token}` },
      body: new Uint8Array(body),
    })
    return { status: reply.status, body: await reply.json() }
  }
  const names = (folder: string) => readdirSync(join(stage().dataDir, "layers", folder))
  const expectNothingOf = async (slug: string) => {
    await expect(stage().client().workspaces.get(slug)).rejects.toMatchObject({ code: "not_found" })
    expect(names("stacks")).not.toContain(slug)
    expect(names("pins")).toEqual([])
    expect(names("incoming")).toEqual([])
  }

  it(
    "makes a workspace of its files, whose sandbox sees them as they were, and which `up` gives a repo and settings",
    async () => {
      const { told, shown, sandbox, client } = stage()
      const imported = await shown("layers", "import", "to", archive)
      expect(imported).toMatchObject({ status: 0, stderr: expect.stringMatching(PROGRESS) })
      const first = sandbox(imported.stdout.trim())
      expect((await first.commands.run(LOOK)).stdout).toBe(looked)
      const { agent, repos, hostPorts } = await client().workspaces.get("to")
      expect({ agent, repos, hostPorts }).toMatchObject({
        agent: { keys: [] },
        repos: [],
        hostPorts: [],
      })

      const up = await told("up", repo, "--name", "to", "--network", "none")
      expect(up).toMatchObject({ status: 0 })
      const second = sandbox(up.stdout.trim())
      expect(second.id).not.toBe(first.id)
      expect((await second.commands.run(LOOK)).stdout).toBe(looked)
      // Each has its own files.
      await second.commands.run("echo second > ~/kept")
      expect(
        (await stage().berth(["exec", "from", "--", "sh", "-c", "cat ~/kept"])).stdout.toString(),
      ).toBe("at home\n")
      expect(await told("rm", "to", "--force")).toMatchObject({ status: 0 })
    },
    DEADLINE_MS,
  )

  it("is refused under a taken name, and overwrites no existing file", async () => {
    const { told, base } = stage()
    const taken = await told("layers", "import", "from", archive, "--json")
    expect(taken.status).toBe(1)
    expect(JSON.parse(taken.stderr).error).toMatchObject({ code: "workspace.exists" })
    const before = readFileSync(archive)
    const again = await told("layers", "export", "from", archive)
    expect(again.stderr).toContain(`${archive} exists`)
    expect(readFileSync(archive).equals(before)).toBe(true)
    const nowhere = await told("layers", "export", "nowhere", join(base, "nowhere"), "--json")
    expect(JSON.parse(nowhere.stderr).error).toMatchObject({ code: "not_found" })
    expect(readdirSync(base).filter((name) => name.startsWith("nowhere"))).toEqual([])
    const missing = await told("layers", "import", "missing", join(base, "nowhere"))
    expect(missing.stderr).toMatch(/nowhere cannot be read: ENOENT/)
  })

  it("is refused if it is no archive, cut short or damaged, and leaves no files", async () => {
    const { told, base } = stage()
    const whole = readFileSync(archive)
    const damaged = Buffer.from(whole)
    damaged.writeUInt8((damaged[whole.length >> 1] ?? 0) ^ 255, whole.length >> 1)
    const wrong = { none: Buffer.from("hello"), cut: whole.subarray(0, -20), damaged }
    for (const [name, bytes] of Object.entries(wrong)) {
      const path = join(base, `${name}.tar.zst`)
      writeFileSync(path, bytes)
      const refused = await told("layers", "import", name, path, "--json")
      expect(refused.status).toBe(1)
      expect(JSON.parse(refused.stderr).error, name).toMatchObject({
        code: "layers.archive_refused",
      })
      await expectNothingOf(name)
    }
  })

  it("is refused through the API when an entry leads outside, is hostile or is missing, and leaves no files", async () => {
    const trees = [directory("workspace"), directory("home")] as const
    const [workspace, home] = trees
    const described = { trees: ["workspace", "home"] as never }
    const hostile = [
      [workspace, file("workspace/../../../../evil", "x"), home],
      [workspace, link("workspace/etc", "/etc", "2"), file("workspace/etc/evil", "x"), home],
      [workspace, link("workspace/shadow", "/etc/shadow", "1"), home],
      [workspace, { ...file("workspace/sda"), type: "4", deviceMajor: 8 }, home],
      [workspace, withXattr(directory("workspace/d"), "trusted.overlay.redirect", "/../x"), home],
      [workspace, { ...file("workspace/root"), uid: 100_000 }, home],
      [workspace],
      [home, workspace],
    ]
    for (const entries of hostile) {
      const { status, body } = await put("evil", await makeArchive(entries, described))
      expect({ status, body }).toMatchObject({
        status: 400,
        body: { code: "layers.archive_refused" },
      })
      await expectNothingOf("evil")
    }
    // More than a few megabytes of a body, which is still coming when it is refused.
    const long = Buffer.concat([Buffer.from("not zstd"), Buffer.alloc(20_000_000)])
    expect(await put("evil", long)).toMatchObject({ status: 400 })
    await expectNothingOf("evil")
  })

  sampledCases(`further cases of archives, ${backend}`, 1, (further) => {
    further(
      "passes through a pipe, also from a stopped workspace",
      async () => {
        const { told, berth, sandbox } = stage()
        expect(await told("stop", "from", "--force")).toMatchObject({ status: 0 })
        const { stdout, stderr, status } = await berth(["layers", "export", "from"])
        expect({ stderr, status }).toEqual({ stderr: "", status: 0 })
        const imported = await berth(["layers", "import", "piped", "-", "--json"], stdout)
        expect(imported).toMatchObject({ stderr: "", status: 0 })
        const { identity } = JSON.parse(imported.stdout.toString())
        expect((await sandbox(identity.sandbox).commands.run(LOOK)).stdout).toBe(looked)
        expect(await told("rm", "piped", "--force")).toMatchObject({ status: 0 })
      },
      DEADLINE_MS,
    )

    further(
      "leaves no files of an import or an export that Ctrl-C ends",
      async () => {
        const { startBerth, base, client, sandbox, told } = stage()
        const up = await told("up", "--empty", "--name", "large", "--network", "none")
        await sandbox(up.stdout.trim()).commands.run("head -c 100000000 /dev/urandom > large")
        const begun = startBerth(["layers", "import", "begun"])
        begun.stdin.on("error", () => {})
        let sentBytes = 0
        // Leaving the loop ends this export.
        for await (const chunk of await client().workspaces.exportFiles("large")) {
          begun.stdin.write(chunk)
          sentBytes += chunk.length
          if (sentBytes > 10_000_000) break
        }
        await vi.waitUntil(() => names("incoming").length === 2, WAIT)
        begun.kill("SIGINT")
        const [ended] = await once(begun, "close")
        expect(ended).not.toBe(0)
        const isGone = () =>
          client()
            .workspaces.get("begun")
            .then(() => false)
            .catch(() => names("incoming").length === 0 && names("pins").length === 0)
        await vi.waitUntil(isGone, WAIT)
        await expectNothingOf("begun")

        const into = join(base, "large.tar.zst")
        onTestFinished(() => rmSync(into, { force: true }))
        const exporting = startBerth(["layers", "export", "large", into])
        const parts = () => readdirSync(base).filter((name) => name.startsWith("large.tar.zst"))
        await vi.waitUntil(() => parts().length > 0, WAIT)
        exporting.kill("SIGINT")
        const [status] = await once(exporting, "close")
        expect(status).not.toBe(0)
        expect(existsSync(into)).toBe(false)
        expect(parts()).toEqual([])
        expect(await told("rm", "large", "--force")).toMatchObject({ status: 0 })
      },
      DEADLINE_MS,
    )
  })
}
