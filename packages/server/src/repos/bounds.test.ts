import { execFileSync, spawnSync } from "node:child_process"
import { randomBytes } from "node:crypto"
import { chownSync, mkdirSync, readdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { Readable } from "node:stream"
import { requires } from "@berth/testing/requires"
import { describe, expect, it, onTestFinished, vi } from "vitest"
import { sendBundle } from "./bundle.ts"
import { makeLensDirectory, sweepLenses } from "./lenses.ts"
import { makeDeltaBomb } from "./testing/delta-bomb.ts"
import { commit, git, makeRepo, temporaryDirectory } from "./testing/host-repos.ts"

const never = new AbortController().signal
const MIB = 1024 ** 2

const drain = async (bundle: Readable) => await bundle.forEach(() => {})

/** Makes a directory and uses it as the temporary one, in place of the system's. */
const ownTemporary = (): string => {
  const own = temporaryDirectory()
  vi.stubEnv("TMPDIR", own)
  onTestFinished(() => void vi.unstubAllEnvs())
  return own
}

describe("a hostile repo of the host", () => {
  it("fails where its packs stand for more memory than git is given, and leaves nothing", async () => {
    const { path, bytes } = makeDeltaBomb(64)
    expect(bytes).toBeGreaterThan(1_000 * MIB)
    const own = ownTemporary()
    await expect(
      sendBundle(
        { path, ref: undefined, have: [] },
        { send: drain, signal: never, maxMemoryBytes: 384 * MIB },
      ),
    ).rejects.toMatchObject({ code: "repo.bundle_failed", details: { path } })
    expect(readdirSync(own)).toEqual([])
  })

  it("is sent within 128 MiB of memory when its files are large and compress well", async () => {
    const { path } = makeRepo()
    writeFileSync(join(path, "zeros"), Buffer.alloc(160 * MIB))
    git(path, "-c", "core.bigFileThreshold=1m", "add", "zeros")
    commit(path, "zeros")
    const sent = sendBundle(
      { path, ref: undefined, have: [] },
      { send: drain, signal: never, maxMemoryBytes: 128 * MIB },
    )
    expect(await sent).toMatchObject({ isBundled: true })
  })

  it("fails where it is larger than a bundle may be, and leaves nothing", async () => {
    const { path } = makeRepo()
    writeFileSync(join(path, "noise"), randomBytes(2 * MIB))
    git(path, "add", "noise")
    commit(path, "noise")
    const own = ownTemporary()
    const wanted = { path, ref: undefined, have: [] }
    await expect(
      sendBundle(wanted, { send: drain, signal: never, maxBytes: MIB }),
    ).rejects.toMatchObject({ code: "repo.bundle_failed", details: { maxBytes: MIB } })
    expect(readdirSync(own)).toEqual([])
  })
})

describe("a lens that a killed server left", () => {
  const LENSES = JSON.stringify(join(import.meta.dirname, "lenses.ts"))

  it("is removed by the next server, while a living server's lens and other entries stay", async () => {
    const own = ownTemporary()
    const script = `
      const { makeLensDirectory } = await import(${LENSES})
      await makeLensDirectory()
      process.kill(process.pid, "SIGKILL")`
    const args = ["--conditions=source", "--input-type=module", "--eval", script]
    const { signal } = spawnSync(process.execPath, args, { env: { TMPDIR: own } })
    expect(signal).toBe("SIGKILL")
    expect(readdirSync(own)).toHaveLength(1)
    const living = await makeLensDirectory()
    for (const name of ["berth-bundle-other", "somebody's"]) mkdirSync(join(own, name))
    execFileSync("ln", ["-s", living, join(own, "berth-bundle-999999999-1-link")])
    await sweepLenses()
    expect(readdirSync(own).map((name) => join(own, name))).toEqual(
      expect.arrayContaining([living]),
    )
    expect(readdirSync(own)).toHaveLength(4)
  })

  requires("root").it("is not removed where it belongs to another user", async () => {
    const own = ownTemporary()
    const theirs = join(own, "berth-bundle-999999999-1-theirs")
    mkdirSync(theirs)
    chownSync(theirs, 65_534, 65_534)
    await sweepLenses()
    expect(readdirSync(own)).toHaveLength(1)
  })
})
