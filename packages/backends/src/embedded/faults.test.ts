import { spawnSync } from "node:child_process"
import { mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { PLAIN_ENV } from "@berth/host/child"
import { findTool } from "@berth/host/find-tool"
import { newId } from "@berth/protocol/ids"
import { requires } from "@berth/testing/requires"
import { expect, it, onTestFinished, vi } from "vitest"
import { sandboxesOf } from "../testing/sandboxes.ts"
import { openEmbedded } from "./backend.ts"
import { identifyProcess } from "./process.ts"
import { openHarness } from "./testing/harness.ts"
import { specFor } from "./testing/spec.ts"

const temporary = async (): Promise<string> => {
  const directory = await mkdtemp(join(tmpdir(), "berth-faults-"))
  onTestFinished(() => rm(directory, { recursive: true, force: true }))
  return directory
}

/** A directory with the real programs, some of them replaced by a script. */
const programs = async (scripts: Readonly<Record<string, string>>): Promise<string> => {
  const directory = await temporary()
  for (const tool of ["conmon", "tini", "crun"]) {
    const script = scripts[tool]
    const real = await findTool(tool, PLAIN_ENV.PATH)
    if (script !== undefined) {
      await writeFile(join(directory, tool), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
    } else if (real !== undefined) {
      await symlink(real, join(directory, tool))
    }
  }
  return directory
}

/** A crun that is the real one but for its version and for `create`, which runs this script. */
const faulty = (create: string) => `case "$*" in
*--version*) echo "crun version 1.8.1" ;;
*create*) ${create} ;;
*) exec crun "$@" ;;
esac`

const openFaulty = async (scripts: Readonly<Record<string, string>>) => {
  const harness = await openHarness({ path: await programs(scripts) })
  onTestFinished(() => harness.close())
  return { harness, empty: await harness.census() }
}

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces").describe(
  "an embedded backend on a faulty host",
  () => {
    it("[R1.14] names the program that is missing", async () => {
      const directory = await temporary()
      const opened = openEmbedded({
        installation: newId.installation(),
        directory,
        path: directory,
      })
      await expect(opened).rejects.toMatchObject({
        code: "backend.unavailable",
        details: { tool: "crun", lookedIn: directory },
      })
    })

    it("[R1.14] refuses a runtime that is too old, or that does not tell its version", async () => {
      for (const [script, message] of [
        ["echo crun version 0.9", "is too old"],
        ["echo nonsense; exit 3", "does not tell its version"],
      ] as const) {
        const opened = openHarness({ path: await programs({ crun: script }) })
        await expect(opened).rejects.toMatchObject({
          code: "backend.unavailable",
          message: expect.stringContaining(message),
        })
      }
    })

    it("[R1.14] ends a creation whose runtime hangs at its deadline, and leaves nothing", async () => {
      const { harness, empty } = await openFaulty({ crun: faulty("exec sleep 1000") })
      const spec = specFor(harness.installation)
      await expect(harness.backend.create(spec, { deadlineMs: 400 })).rejects.toMatchObject({
        code: "deadline.exceeded",
        details: { operation: "sandbox.create", deadlineMs: 400 },
      })
      expect(await harness.census()).toEqual(empty)
    })

    it("[R1.14] reports the words of a runtime that refuses a creation, and leaves nothing", async () => {
      const { harness, empty } = await openFaulty({
        crun: faulty("echo 'the moon is in the way' >&2; exit 1"),
      })
      await expect(harness.backend.create(specFor(harness.installation))).rejects.toMatchObject({
        code: "backend.engine_failed",
        details: { engineSaid: expect.stringContaining("the moon is in the way") },
      })
      expect(await harness.census()).toEqual(empty)
    })

    it.each([
      ["dies", "kill -KILL $$"],
      ["says garbage", 'echo \'{"data": "x\' >&3; exit 0'],
      ["says nothing", "exit 0"],
    ])("[R1.14] fails a creation when conmon %s, and leaves nothing", async (_, script) => {
      const { harness, empty } = await openFaulty({ conmon: script })
      await expect(harness.backend.create(specFor(harness.installation))).rejects.toMatchObject({
        code: "backend.engine_failed",
      })
      expect(await harness.census()).toEqual(empty)
    })

    it.each([
      ["that ends when it is asked to", "exec sleep 1000"],
      ["that has to be killed", "trap '' TERM; while :; do sleep 1000; done"],
    ])("stops a sandbox %s without waiting for a conmon that was killed", async (kind, script) => {
      const harness = await openHarness()
      onTestFinished(() => harness.close())
      const sandboxes = sandboxesOf(harness)
      const sandbox = await sandboxes.boot(["/bin/sh", "-c", `echo up; ${script}`])
      await sandboxes.said(sandbox, "up")
      const noted = join(harness.directory, "sandboxes", sandbox, "monitor.pid")
      const monitor = Number(await readFile(noted, "utf8"))
      process.kill(monitor, "SIGKILL")
      await vi.waitUntil(() => identifyProcess(monitor) === undefined)
      // Nobody writes the exit file any more. A wait for it would last longer than this test may take.
      const graceMs = kind.includes("killed") ? 100 : 3_600_000
      await harness.backend.stop(sandbox, { graceMs }, { deadlineMs: 3_600_000 })
      expect(await harness.backend.inspect(sandbox)).toMatchObject({
        state: "exited",
        exit: { code: null, reason: "unknown" },
      })
      await harness.backend.remove(sandbox)
    })

    it("waits for conmon's own pid where conmon notes it after the container is made", async () => {
      const script = `for argument do
  shift
  case "$argument" in
  */monitor.pid) noted=$argument; argument=$noted.late ;;
  esac
  set -- "$@" "$argument"
done
conmon "$@"
while ! grep -q . "\${noted%/*}/init.pid" 2>/dev/null; do sleep 0.01; done
sleep 0.2
mv "$noted.late" "$noted"`
      const { harness, empty } = await openFaulty({ conmon: script })
      const spec = specFor(harness.installation)
      await harness.backend.create(spec)
      await harness.backend.remove(spec.identity.sandbox)
      expect(await harness.census()).toEqual(empty)
    })

    it("[R1.14] refuses a rootfs that does not exist, and leaves nothing", async () => {
      const { harness, empty } = await openFaulty({})
      const spec = specFor(harness.installation, {
        system: { kind: "rootfs", path: "/no/such/rootfs" },
      })
      await expect(harness.backend.create(spec)).rejects.toMatchObject({
        code: "backend.rootfs_invalid",
      })
      expect(await harness.census()).toEqual(empty)
    })

    it("[R1.14] reports that the disk is full, leaves nothing, and works once there is space", async () => {
      const { harness, empty } = await openFaulty({})
      const disk = join(harness.directory, "sandboxes")
      const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", "size=256k", "berth-small", disk])
      expect(mounted.status).toBe(0)
      onTestFinished(() => {
        spawnSync("umount", ["--lazy", disk])
      })
      const filler = join(disk, "filler")
      await writeFile(filler, Buffer.alloc(252 * 1024))
      const spec = specFor(harness.installation)
      await expect(harness.backend.create(spec)).rejects.toMatchObject({
        code: "backend.disk_full",
        details: { engineSaid: expect.stringContaining("ENOSPC") },
      })
      await rm(filler)
      expect(await harness.census()).toEqual({ ...empty, mounts: 1 })
      await harness.backend.create(spec)
      await harness.backend.remove(spec.identity.sandbox)
      expect(await harness.census()).toEqual({ ...empty, mounts: 1 })
    })

    it("names the limits that do not hold where cgroups cannot be written, and runs without them", async () => {
      const directory = await temporary()
      const child = fileURLToPath(new URL("./testing/without-cgroups.ts", import.meta.url))
      const { stdout, stderr } = spawnSync(
        "unshare",
        [
          ...["--mount", "sh", "-c"],
          'for m in $(grep -o "/sys/fs/cgroup/[^ ]*" /proc/mounts); do mount -o remount,bind,ro $m; done; exec "$@"',
          ...["sh", process.execPath, "--conditions=source", child, directory],
        ],
        { encoding: "utf8" },
      )
      expect(stderr).toBe("")
      const { description, observed, output } = JSON.parse(stdout)
      expect(description.pause).toBe(false)
      for (const limit of ["memoryBytes", "cpus", "pids"]) {
        expect(description.limits[limit]).toMatchObject({ held: false })
        expect(observed.unheldLimits).toContainEqual(
          expect.objectContaining({ limit, why: expect.stringMatching(/./) }),
        )
      }
      expect(output).toBe("up\n")
    })
  },
)
