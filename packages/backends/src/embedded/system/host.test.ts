import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { hostPlan } from "./host.ts"

/** A host of the test's own: a directory that plays its file system. */
let host: string
beforeEach(async () => {
  host = await mkdtemp(join(tmpdir(), "berth-host-"))
  await mkdir(join(host, "usr/bin"), { recursive: true })
  await mkdir(join(host, "etc"))
})
afterEach(() => rm(host, { recursive: true, force: true }))

const plan = () => hostPlan({ host, init: "/usr/bin/tini", mountPoints: [] })
const write = async (path: string, content = "") => {
  await mkdir(join(host, path, ".."), { recursive: true })
  await writeFile(join(host, path), content)
}

describe("the plan of the host's system", () => {
  it("keeps links into /usr, and binds directories", async () => {
    await symlink("usr/bin", join(host, "bin"))
    await mkdir(join(host, "lib"))
    const { entries, binds } = plan()
    expect(entries.get("/bin")).toEqual({ kind: "link", to: "usr/bin" })
    expect(entries.get("/lib")).toEqual({ kind: "directory", mode: 0o755 })
    expect(entries.has("/lib64")).toBe(false)
    expect(binds).toEqual([
      { source: join(host, "usr"), target: "/usr", readOnly: true },
      { source: join(host, "lib"), target: "/lib", readOnly: true },
    ])
  })

  it("copies the listed entries of /etc that exist, and nothing else", async () => {
    for (const name of [
      "shadow",
      "gitconfig",
      "npmrc",
      "ssh/key",
      "ssl/private/key",
      "machine-id",
    ]) {
      await write(`etc/${name}`)
    }
    for (const name of ["services", "ssl/certs/a.pem", "python3.11/x", "python3/x", "java-21/x"]) {
      await write(`etc/${name}`)
    }
    await write("etc/passwd", "host-user:x:0:0::/:/bin/sh\n")
    const { entries } = plan()
    const copied = [...entries].filter(([, { kind }]) => kind === "copy").map(([path]) => path)
    expect(copied.sort()).toEqual([
      "/.berth/init",
      "/etc/java-21",
      "/etc/python3",
      "/etc/python3.11",
      "/etc/services",
      "/etc/ssl/certs",
    ])
    expect(entries.get("/etc/passwd")).toMatchObject({
      content: expect.not.stringContaining("host-user"),
    })
  })

  it("copies the target of a link that leads to a place that is not inside", async () => {
    await write("var/lib/certificates/bundle.pem")
    await mkdir(join(host, "etc/ssl"))
    await symlink(join(host, "var/lib/certificates"), join(host, "etc/ssl/certs"))
    await symlink("/usr/share/zoneinfo/UTC", join(host, "etc/localtime"))
    await symlink(join(host, "nowhere"), join(host, "etc/services"))
    const { entries } = plan()
    expect(entries.get("/etc/ssl/certs")).toEqual({
      kind: "copy",
      from: join(host, "var/lib/certificates"),
    })
    expect(entries.get("/etc/localtime")).toEqual({
      kind: "copy",
      from: join(host, "etc/localtime"),
    })
    expect(entries.has("/etc/services")).toBe(false)
  })

  it("gives users the shell that the host has", async () => {
    expect(plan().entries.get("/etc/passwd")).toMatchObject({
      content: expect.stringContaining("/home/agent:/bin/sh\n"),
    })
    await write("usr/bin/bash")
    expect(plan().entries.get("/etc/passwd")).toMatchObject({
      content: expect.stringContaining("/home/agent:/bin/bash\n"),
    })
  })
})
