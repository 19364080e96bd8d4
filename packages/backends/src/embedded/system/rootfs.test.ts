import { chmod, mkdir, symlink, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest"
import { prepareSystem } from "./prepare.ts"
import { openTestbed, type RuntimeName, type Testbed } from "./testing/run-inside.ts"
import { census, makeRootfs } from "./testing/small-rootfs.ts"

let bed: Testbed
let path: string
let count = 0
beforeAll(async () => {
  bed = await openTestbed()
})
afterAll(() => bed.remove())
beforeEach(() => {
  path = join(bed.directory, `rootfs-${count++}`)
})

const prepare = (rootfs: string, mountTargets: string[] = []) =>
  prepareSystem(
    {
      identity: { kind: "rootfs", path: rootfs },
      directory: bed.systems,
      init: "/usr/bin/tini",
      mountTargets,
    },
    AbortSignal.timeout(10_000),
  )

const DEBIAN_LIKE = {
  "etc/passwd":
    "root:x:0:0::/root:/bin/sh\n_apt:x:42:65534::/nonexistent:/bin/false\nnode:x:1000:1000::/home/node:/bin/sh\n",
  "etc/group": "root:x:0:\nnode:x:1000:\n",
  "etc/hostname": "builder\n",
  "etc/resolv.conf": "nameserver 192.0.2.9\n",
  "etc/ssl/openssl.cnf": "conf\n",
  "usr/share/zone": "zone\n",
  "opt/tool/run": "tool\n",
  "opt/single": "single\n",
  "home/someone/secret": "secret\n",
  "root/secret": "secret\n",
  "var/lib/dpkg/status": "status\n",
} as const

describe.each<RuntimeName>(["crun", "runc"])("a sandbox on a rootfs, under %s", (runtime) => {
  const inside = async (script: string, config: Parameters<Testbed["inside"]>[2] = {}) => {
    const system = { kind: "rootfs", path } as const
    const { stdout, stderr, status } = await bed.inside(runtime, script, { system, ...config })
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" })
    return stdout.trim().split("\n")
  }

  it("runs on a distribution's tree, and changes nothing in it", async () => {
    await makeRootfs(path, { layout: "merged", files: DEBIAN_LIKE })
    await symlink("../usr/share/zone", join(path, "etc/localtime"))
    await symlink("../../usr/share/zone", join(path, "etc/ssl/zone"))
    const before = await census(path)
    expect(
      await inside(`id -un; id -un 1000; id -u node; id -u _apt; cat /etc/hostname /etc/resolv.conf /etc/ssl/openssl.cnf \
        /etc/localtime /etc/ssl/zone /opt/tool/run; ls -A /home /root /var/lib
        for place in / /usr /etc /etc/ssl /opt /opt/tool /.berth/system/etc; do (: > $place/x) 2>/dev/null && echo $place; done
        touch /tmp/x /workspace/x /home/agent/x /var/x /run/x`),
    ).toEqual([
      "root",
      "agent",
      "1000",
      "42",
      "inside",
      "nameserver 192.0.2.1",
      "conf",
      "zone",
      "zone",
      "tool",
      "/home:",
      "agent",
      "",
      "/root:",
      "",
      "/var/lib:",
    ])
    expect(await census(path)).toBe(before)
  })

  it("runs on an almost empty tree", async () => {
    await makeRootfs(path, { layout: "split" })
    const before = await census(path)
    expect(await inside("id -un; id -u agent; ls /; cat /etc/hostname")).toEqual([
      "root",
      "1000",
      "bin",
      "dev",
      "etc",
      "home",
      "lib",
      ...(process.arch === "x64" ? ["lib64"] : []),
      "media",
      "mnt",
      "opt",
      "proc",
      "root",
      "run",
      "srv",
      "sys",
      "tmp",
      "var",
      "workspace",
      "inside",
    ])
    expect(await census(path)).toBe(before)
  })

  it("has a place for every mount, beside the rootfs's own files", async () => {
    await makeRootfs(path, { layout: "merged", files: DEBIAN_LIKE })
    const source = join(bed.directory, `source-${runtime}`)
    await mkdir(source)
    await writeFile(join(source, "here"), "")
    const targets = ["/data/deep", "/opt/berth", "/opt/tool"]
    expect(
      await inside("ls /data/deep /opt /opt/berth /opt/tool; cat /opt/single", {
        mounts: targets.map((target) => ({ kind: "directory", source, target, readOnly: true })),
      }),
    ).toEqual(
      "/data/deep:|here||/opt:|berth|single|tool||/opt/berth:|here||/opt/tool:|here|single".split(
        "|",
      ),
    )
  })
})

describe("an unsuitable rootfs", () => {
  it.each<[string, (path: string) => Promise<unknown>, object]>([
    ["does not exist", async () => {}, { engineSaid: expect.stringContaining("ENOENT") }],
    ["is a file", (path) => writeFile(path, ""), {}],
    ["has no programs", (path) => mkdir(path), {}],
    ["is a link", (path) => symlink("/usr", path), { leadsTo: "/usr" }],
    [
      "has a link as usr",
      async (path) => {
        await mkdir(join(path, "bin"), { recursive: true })
        await symlink("/usr", join(path, "usr"))
      },
      { leadsTo: "/usr" },
    ],
    [
      "has a link as etc",
      async (path) => {
        await mkdir(join(path, "bin"), { recursive: true })
        await symlink("/etc", join(path, "etc"))
      },
      { leadsTo: "/etc" },
    ],
  ])("is refused when it %s", async (_, make, details) => {
    await make(path)
    await expect(prepare(path)).rejects.toMatchObject({ code: "backend.rootfs_invalid", details })
  })

  it("is refused when a part of its path is a link", async () => {
    await makeRootfs(join(path, "real/inner"), { layout: "merged" })
    await symlink("real", join(path, "link"))
    await expect(prepare(join(path, "link/inner"))).rejects.toMatchObject({
      code: "backend.rootfs_invalid",
      details: { leadsTo: join(path, "real/inner") },
    })
  })

  it.each(["/", "Berth's own directory"])("is refused when it is %s", async (which) => {
    await mkdir(join(bed.directory, "bin"), { recursive: true })
    await expect(prepare(which === "/" ? "/" : bed.directory)).rejects.toMatchObject({
      code: "backend.rootfs_invalid",
      details: { dataDirectory: bed.systems },
    })
  })

  it("is refused when a mount would land behind a link or on a file of it", async () => {
    await makeRootfs(path, { layout: "merged", files: { "opt/file": "" } })
    await symlink("/etc", join(path, "opt/link"))
    await symlink("etc", join(path, "top"))
    for (const target of ["/opt/link", "/opt/link/x", "/opt/file", "/opt/file/x", "/top/x"]) {
      await expect(prepare(path, [target])).rejects.toMatchObject({
        code: "input.invalid",
        details: { targets: [target] },
      })
    }
  })

  it("shows nothing of a file of the host that its etc/passwd links to", async () => {
    await makeRootfs(path, { layout: "merged" })
    const secret = join(bed.directory, "secret")
    await writeFile(secret, "secret:x:7:7::/:/bin/sh\n")
    await chmod(secret, 0o600)
    await mkdir(join(path, "etc"))
    await symlink(secret, join(path, "etc/passwd"))
    const { stdout } = await bed.inside("crun", "cat /etc/passwd", {
      system: { kind: "rootfs", path },
    })
    expect(stdout).toContain("root:x:0")
    expect(stdout).not.toContain("secret")
  })
})

describe("an image", () => {
  it("is refused, and the error names the systems that are supported", async () => {
    const identity = { kind: "image", digest: `sha256:${"0".repeat(64)}` } as const
    await expect(
      prepareSystem(
        { identity, directory: bed.systems, init: "/usr/bin/tini", mountTargets: [] },
        AbortSignal.timeout(5_000),
      ),
    ).rejects.toMatchObject({
      code: "backend.unsupported",
      details: { instead: ["host", "rootfs"] },
    })
  })
})
