import { mkdir, readdir, symlink, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { run } from "@berth/host/run"
import type { Mount } from "@berth/protocol/sandbox"
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest"
import type { z } from "zod"
import { resolveMounts } from "./mount-sources.ts"
import { parseMountTable, withSubmounts } from "./mount-table.ts"
import { makePrivateDirectories } from "./private-directories.ts"
import { ID_BASE } from "./testing/bundles.ts"
import { openTestbed, type RuntimeName, type Testbed } from "./testing/run-inside.ts"

type Directory = Extract<Mount, { kind: "directory" }>

let bed: Testbed
let place: string
let count = 0
beforeAll(async () => {
  bed = await openTestbed()
})
afterAll(() => bed.remove())
beforeEach(async () => {
  place = join(bed.directory, `place-${count++}`)
  await mkdir(place, { mode: 0o777 })
})

const mount = (source: string, target: string, readOnly = false): Directory => ({
  kind: "directory",
  source,
  target,
  readOnly,
})
const resolve = (...mounts: Directory[]) =>
  resolveMounts({
    mounts,
    cachePath: (cache) => join(place, cache),
    stackPath: (stack) => `/stacks/${stack}`,
    sharedDirectory: "/shared/own",
    keepOut: [join(bed.directory, "systems")],
  })

describe("targets", () => {
  it.each([
    "/",
    "/proc",
    "/proc/sys",
    "/sys/fs/cgroup",
    "/dev",
    "/dev/shm",
    "/usr",
    "/usr/local/share",
    "/etc",
    "/etc/ssl/certs",
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
    "/boot",
    "/.berth",
    "/.berth/init",
    "/tmp",
    "/run",
    "/root",
    "/var",
    "/var/tmp",
    "/var/run/x",
  ])("refuses a mount at %s, with the place in the request", async (target) => {
    await expect(resolve(mount(place, "/data"), mount(place, target))).rejects.toMatchObject({
      code: "input.invalid",
      details: { path: "mounts.1.target", target },
    })
  })

  it("refuses two mounts at one place", async () => {
    await expect(resolve(mount(place, "/data"), mount(place, "/data"))).rejects.toMatchObject({
      code: "input.invalid",
      details: { path: "mounts.1.target", why: "another mount is there" },
    })
  })

  it("refuses a mount within a mount that has no place for it", async () => {
    await mkdir(join(place, "outer"))
    await symlink("/etc", join(place, "outer/link"))
    for (const inner of ["/data/missing", "/data/link"]) {
      await expect(
        resolve(mount(place, inner), mount(join(place, "outer"), "/data")),
      ).rejects.toMatchObject({ code: "input.invalid", details: { path: "mounts.0.target" } })
    }
    expect(await readdir(join(place, "outer"))).toEqual(["link"])
  })

  it("puts an outer mount before an inner one that is listed first", async () => {
    await mkdir(join(place, "inner"))
    const binds = await resolve(mount(place, "/data/inner"), mount(place, "/data"))
    expect(binds.map(({ target }) => target)).toEqual(["/data", "/data/inner"])
  })
})

describe("sources", () => {
  it("refuses a source that does not exist", async () => {
    await expect(resolve(mount(join(place, "no"), "/data"))).rejects.toMatchObject({
      code: "backend.mount_invalid",
      details: { path: "mounts.0.source", engineSaid: expect.stringContaining("ENOENT") },
    })
  })

  it("refuses a link, and says where it leads", async () => {
    await mkdir(join(place, "real/deep"), { recursive: true })
    await symlink("real", join(place, "link"))
    for (const source of ["link", "link/deep"]) {
      await expect(resolve(mount(join(place, source), "/data"))).rejects.toMatchObject({
        code: "backend.mount_invalid",
        details: { leadsTo: join(place, source.replace("link", "real")) },
      })
    }
  })

  it("refuses a file", async () => {
    await writeFile(join(place, "file"), "")
    await expect(resolve(mount(join(place, "file"), "/data"))).rejects.toMatchObject({
      code: "backend.mount_invalid",
      message: expect.stringContaining("not a directory"),
    })
  })

  it.each(["/", "/proc", "/proc/self", "/sys/kernel", "/dev", "/sys/fs"])(
    "refuses %s, which holds the kernel's files",
    async (source) => {
      await expect(resolve(mount(source, "/data"))).rejects.toMatchObject({
        code: "backend.mount_invalid",
      })
    },
  )

  it("refuses a directory that holds Berth's own data or lies in it", async () => {
    await mkdir(bed.systems, { recursive: true })
    for (const source of [bed.directory, bed.systems]) {
      await expect(resolve(mount(source, "/data"))).rejects.toMatchObject({
        code: "backend.mount_invalid",
        details: { dataDirectory: bed.systems },
      })
    }
  })
})

describe("mount points in a sandbox's own directories", () => {
  const make = (mountTargets: string[]) =>
    makePrivateDirectories(
      { workspace: join(place, "workspace"), home: join(place, "home") },
      { idBase: ID_BASE, mountTargets },
    )

  it("are refused behind a link that an earlier sandbox left", async () => {
    make([])
    await symlink("/etc", join(place, "workspace/cache"))
    for (const target of ["/workspace/cache", "/workspace/cache/deep"]) {
      expect(() => make([target])).toThrow(
        expect.objectContaining({
          code: "input.invalid",
          details: expect.objectContaining({ target }),
        }),
      )
    }
  })

  it("keep their files when they are made again", async () => {
    make(["/workspace/cache"])
    await writeFile(join(place, "workspace/cache/kept"), "")
    make(["/workspace/cache"])
    expect(await readdir(join(place, "workspace/cache"))).toEqual(["kept"])
  })
})

describe("the mount table", () => {
  it("reads paths with spaces", () => {
    const line = String.raw`36 35 98:0 /a /mnt/my\040disk rw,noatime master:1 - ext4 /dev/a\040b rw`
    expect(parseMountTable(`${line}\n`)).toEqual([{ path: "/mnt/my disk", type: "ext4" }])
  })

  it("adds binds for the mounts below a source", () => {
    const bind = { source: "/usr", target: "/usr", readOnly: true }
    const table = ["/", "/usr", "/usr/local", "/usrlocal"].map((path) => ({ path, type: "ext4" }))
    expect(withSubmounts([bind], table)).toEqual([
      bind,
      { source: "/usr/local", target: "/usr/local", readOnly: true },
    ])
  })
})

describe.each<RuntimeName>(["crun", "runc"])("mounts inside, under %s", (runtime) => {
  const inside = async (script: string, mounts: z.input<typeof Mount>[]) => {
    const { stdout, stderr, status } = await bed.inside(runtime, script, { mounts })
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" })
    return stdout.trim().split("\n")
  }
  const flags = "awk '$5 ~ \"^/data\" {print $5, $6}' /proc/self/mountinfo"

  it("show a directory of the host, read-only or not", async () => {
    await run(["chmod", "777", place], { signal: AbortSignal.timeout(5_000) })
    await writeFile(join(place, "file"), "text")
    const tries = "cat /data/file; echo; (: > /data/new) 2>/dev/null && echo written; true"
    expect(await inside(tries, [mount(place, "/data", true)])).toEqual(["text"])
    expect(await inside(tries, [mount(place, "/data")])).toEqual(["text", "written"])
    expect((await readdir(place)).sort()).toEqual(["file", "new"])
  })

  it("appear at targets whose mount points Berth makes", async () => {
    const targets = [
      "/data",
      "/opt/a/b",
      "/workspace/x/y",
      "/home/agent/.cache/npm",
      "/tmp/z",
      "/var/lib/q",
    ]
    const script = `for target in ${targets.join(" ")}; do ls $target; done
      stat -c %u /home/agent/.cache /workspace/x`
    await writeFile(join(place, "here"), "")
    expect(
      await inside(
        script,
        targets.map((target) => mount(place, target, true)),
      ),
    ).toEqual([...targets.map(() => "here"), "1000", "1000"])
  })

  it("take the place of the workspace", async () => {
    await writeFile(join(place, "here"), "")
    expect(await inside("pwd; ls", [mount(place, "/workspace", true)])).toEqual([
      "/workspace",
      "here",
    ])
  })

  it("bring along a mount below their source, as read-only as the source", async () => {
    const disk = join(place, "disk")
    await mkdir(disk)
    const signal = AbortSignal.timeout(10_000)
    // noexec and nodiratime are flags that a user namespace may not clear.
    await run(["mount", "-t", "tmpfs", "-o", "noexec,noatime", "disk", disk], { signal })
    try {
      await writeFile(join(disk, "file"), "on the disk")
      const seen = await inside(
        `cat /data/disk/file; echo; ${flags}; (: > /data/disk/new) 2>/dev/null; true`,
        [mount(place, "/data", true)],
      )
      expect(seen[0]).toBe("on the disk")
      for (const line of seen.slice(1)) expect(line).toMatch(/^\/data(\/disk)? ro,nosuid,nodev/)
      expect(await readdir(disk)).toEqual(["file"])
      const writable = await inside(flags, [mount(disk, "/data")])
      expect(writable).toEqual(["/data rw,nosuid,nodev,noexec,noatime"])
    } finally {
      await run(["umount", disk], { signal })
    }
  })
})
