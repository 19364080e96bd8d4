import { chown, lstat, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { PLAIN_ENV } from "@berth/host/child"
import { findTool } from "@berth/host/find-tool"
import { run } from "@berth/host/run"
import type { SandboxId } from "@berth/protocol/ids"
import { requires } from "@berth/testing/requires"
import { sampled } from "@berth/testing/sampled"
import { expect, it, onTestFinished, vi } from "vitest"
import type { Backend } from "../../backend.ts"
import type { ConfigInput } from "../../testing/sandboxes.ts"
import { openHarness } from "../testing/harness.ts"
import { openHarnessOnRunc } from "../testing/on-runc.ts"
import { specFor } from "../testing/spec.ts"
import { AGENT_ID, ID_COUNT } from "./range.ts"

const open = async (opening = openHarness) => {
  const harness = await opening()
  onTestFinished(() => harness.close())
  const empty = await harness.census()
  const boot = async (script: string, config: ConfigInput = {}, { backend } = harness) => {
    const command = ["/bin/sh", "-c", `${script}; echo end; exec sleep 1000`] as const
    const spec = specFor(harness.installation, { ...config, command: [...command] })
    const { sandbox } = spec.identity
    await backend.create(spec)
    await backend.start(sandbox)
    await expect.poll(() => backend.logs(sandbox), { timeout: 20_000 }).toContain("end\n")
    return { sandbox, said: (await backend.logs(sandbox)).replace("end\n", "") }
  }
  /** The first id of the range that the kernel has for a sandbox. */
  const rangeOf = async (sandbox: SandboxId): Promise<number> => {
    const pid = await readFile(join(harness.directory, "sandboxes", sandbox, "init.pid"), "utf8")
    const [inside, outside, count] = (await readFile(`/proc/${pid}/uid_map`, "utf8"))
      .trim()
      .split(/\s+/)
      .map(Number)
    expect([inside, count]).toEqual([0, ID_COUNT])
    return outside ?? 0
  }
  return { harness, boot, rangeOf, empty }
}

const makeDirectory = async (mode: number, name = "berth-shared-"): Promise<string> => {
  const directory = await mkdtemp(join(tmpdir(), name))
  onTestFinished(() => rm(directory, { recursive: true }))
  await run(["chmod", mode.toString(8), directory], { signal: AbortSignal.timeout(10_000) })
  return directory
}

const mounted = (source: string, target: string) =>
  ({ kind: "directory", source, target, readOnly: false }) as const

/** Writes a file, as the agent, that only its owner may read. */
const WRITE = "setpriv --reuid 1000 --regid 1000 --clear-groups sh -c 'umask 077; echo mine >"
const READ = "setpriv --reuid 1000 --regid 1000 --clear-groups cat"

const RUNTIMES = [
  ["on the runtime of choice", openHarness],
  ["on runc", openHarnessOnRunc],
] as const

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces", "mappedIds").describe(
  "an embedded sandbox's range of ids",
  () => {
    it.each(sampled("runtimes of ranges of ids", RUNTIMES, 1))(
      "is its own, while its files have ids of the installation's range on disk, %s",
      async (_, opening) => {
        const { harness, boot, rangeOf, empty } = await open(opening)
        const { backend, directory } = harness
        await backend.ensureCaches(specFor(harness.installation).identity.workspace, ["npm"])
        // The name has characters with a meaning of their own in a mount table.
        const shared = await makeDirectory(0o777, "berth-shared \\040,#ü='-")
        const inner = join(shared, "inner")
        await mkdir(inner)
        await writeFile(join(shared, "of-root"), "root's", { mode: 0o666 })
        await run(["chmod", "666", join(shared, "of-root")], {
          signal: AbortSignal.timeout(10_000),
        })
        await chown(inner, backend.idBase + AGENT_ID, backend.idBase + AGENT_ID)
        const mounts = [
          { kind: "cache", cache: "npm", target: "/home/agent/.npm" } as const,
          mounted(shared, "/mnt"),
          mounted(inner, "/opt"),
        ]
        const places = [
          "/workspace",
          "/home/agent",
          "/home/agent/.npm",
          "/mnt",
          "/mnt/inner",
          "/opt",
        ]
        const one = await boot(
          `${places.map((place, index) => `${WRITE} ${place}/f${index}'`).join(" && ")} && echo more >> /mnt/of-root && stat -c %u /mnt/of-root /workspace /home`,
          { mounts },
        )
        expect(one.said).toBe("65534\n1000\n0\n")
        const other = await boot(
          `${READ} /home/agent/.npm/f2 /mnt/f3 /mnt/inner/f4 /opt/f5; ${WRITE}> /opt/f5'`,
          { mounts },
        )
        expect(other.said).toBe("mine\n".repeat(4))

        const [range, otherRange] = [await rangeOf(one.sandbox), await rangeOf(other.sandbox)]
        expect(new Set([range, otherRange, backend.idBase]).size).toBe(3)
        const own = join(directory, "sandboxes", one.sandbox)
        const written = [join(own, "workspace/f0"), join(own, "home/agent/f1")]
        written.push(...["f3", "inner/f4", "inner/f5"].map((name) => join(shared, name)))
        for (const file of written) {
          const { uid, gid } = await lstat(file)
          expect({ file, uid, gid }).toMatchObject({
            uid: backend.idBase + AGENT_ID,
            gid: backend.idBase + AGENT_ID,
          })
        }
        expect(await lstat(join(shared, "of-root"))).toMatchObject({ uid: 0, gid: 0 })
        for (const { sandbox } of [one, other]) await backend.remove(sandbox)
        expect(await harness.census()).toEqual(empty)
      },
      60_000,
    )

    it("stays its own when another server takes the sandbox over", async () => {
      // Both servers hand out ranges in the same order.
      const random = vi.spyOn(Math, "random").mockReturnValue(0.5)
      onTestFinished(() => random.mockRestore())
      const { harness, boot, rangeOf } = await open()
      const { sandbox } = await boot("true")
      const range = await rangeOf(sandbox)
      const successor = await harness.reopen()
      await successor.repair()
      const state = join(harness.directory, "sandboxes", sandbox, "state.json")
      expect(JSON.parse(await readFile(state, "utf8"))).toMatchObject({ idBase: range })
      const after = { ...harness, backend: successor as Backend }
      const { sandbox: another } = await boot("true", {}, after)
      expect(await rangeOf(another)).not.toBe(range)
    })

    it("is the installation's where the kernel does not map the ids of a mounted directory", async () => {
      const { harness, boot, rangeOf } = await open()
      const { backend } = harness
      const place = await makeDirectory(0o755)
      const signal = AbortSignal.timeout(10_000)
      for (const name of ["upper", "work", "merged"]) await mkdir(join(place, name))
      const options = `lowerdir=/mnt,upperdir=${place}/upper,workdir=${place}/work`
      const merged = join(place, "merged")
      await run(["mount", "-t", "overlay", "overlay", "-o", options, merged], { signal })
      onTestFinished(async () => {
        await run(["umount", "--lazy", merged], { signal: AbortSignal.timeout(10_000) })
      })
      await run(["chmod", "777", merged], { signal })
      const { sandbox } = await boot(`${WRITE} /mnt/f'`, { mounts: [mounted(merged, "/mnt")] })
      expect(await rangeOf(sandbox)).toBe(backend.idBase)
      expect(await lstat(join(merged, "f"))).toMatchObject({ uid: backend.idBase + AGENT_ID })
      expect((await backend.describe()).notes.join("\n")).toContain(
        `Sandboxes that have ${merged} mounted share one range of ids`,
      )
      const { sandbox: without } = await boot("true")
      expect(await rangeOf(without)).not.toBe(backend.idBase)
      for (const each of [sandbox, without]) await backend.remove(each)
    })

    it("is the installation's on a host without perl, and the backend's notes say so", async () => {
      const path = await makeDirectory(0o755)
      for (const tool of ["crun", "conmon", "tini"]) {
        await symlink((await findTool(tool, PLAIN_ENV.PATH)) ?? "", join(path, tool))
      }
      const { harness, boot, rangeOf } = await open(() => openHarness({ path }))
      const { sandbox } = await boot(`${WRITE} /workspace/f'`)
      expect(await rangeOf(sandbox)).toBe(harness.backend.idBase)
      expect((await harness.backend.describe()).notes.join("\n")).toContain("perl is not installed")
    })
  },
)
