import { execFileSync } from "node:child_process"
import { chown, mkdir, rmdir } from "node:fs/promises"
import { dirname, join } from "node:path"
import { newId } from "@berth/protocol/ids"
import { requires } from "@berth/testing/requires"
import { withReason } from "@berth/testing/skip-reason"
import { describe, expect, it, onTestFinished } from "vitest"
import { openCgroups } from "./open.ts"
import {
  fileWith,
  HOST,
  leftovers,
  onlyV2,
  openHere,
  SMALL,
  soon,
  temporaryDirectory,
} from "./testing/host.ts"
import { shellInside } from "./testing/process.ts"

const NOBODY = 65_534

/** Does the work as a user without rights, and is root again after it. */
const asNobody = async <Result>(work: () => Promise<Result>): Promise<Result> => {
  process.seteuid?.(NOBODY)
  try {
    return await work()
  } finally {
    process.seteuid?.(0)
  }
}

const allUnheld = (why: unknown) =>
  Object.fromEntries(
    ["memoryBytes", "cpus", "pids", "pause", "kill"].map((it) => [it, { held: false, why }]),
  )

describe("a host without cgroups", () => {
  const openNone = async () =>
    openCgroups(
      { group: "berth-none", procMounts: await fileWith("proc /proc proc rw 0 0\n") },
      soon(),
    )

  it("holds no limit, and says why", async () => {
    const { mode, held } = await openNone()
    expect(mode).toBe("none")
    expect(held).toEqual(allUnheld("no cgroup hierarchy is mounted"))
  })

  it("gives a sandbox a cgroup with nothing to join and nothing to remove", async () => {
    const cgroups = await openNone()
    const cgroup = await cgroups.create(newId.sandbox(), SMALL)
    expect(cgroup.joinFiles).toEqual([])
    expect(await cgroup.exists()).toBe(false)
    expect(await cgroup.isFrozen()).toBe(false)
    expect(await cgroup.oomKills()).toBe(0)
    await cgroup.remove(soon())
    expect(await cgroups.list()).toEqual([])
  })

  it.each(["pids", "kill", "freeze", "thaw"] as const)(
    "refuses %s as unsupported",
    async (call) => {
      const cgroup = (await openNone()).open(newId.sandbox())
      await expect(cgroup[call](soon())).rejects.toMatchObject({ code: "backend.unsupported" })
    },
  )
})

requires("root").describe("cgroups that cannot be written", () => {
  it("hold no limit for a user without rights, in the kernel's words", async () => {
    const group = `berth-${newId.installation()}`
    const { held } = await asNobody(() => openCgroups({ group }, soon()))
    expect(held).toEqual(allUnheld(expect.stringContaining("EACCES: permission denied")))
    expect(await leftovers(group)).toEqual([])
  })

  it("hold no kill where they are mounted read-only, in the kernel's words", async () => {
    const [controller, source] = [...HOST.v1][0] ?? ["", HOST.v2 ?? ""]
    const mount = await temporaryDirectory()
    execFileSync("mount", ["--bind", source, mount])
    onTestFinished(() => {
      execFileSync("umount", [mount])
    })
    execFileSync("mount", ["-o", "remount,bind,ro", mount])
    const type = controller === "" ? "cgroup2" : "cgroup"
    const procMounts = await fileWith(`cgroup ${mount} ${type} ro,${controller} 0 0\n`)
    const { held } = await openCgroups({ group: "berth-read-only", procMounts }, soon())
    expect(held.kill).toEqual({
      held: false,
      why: expect.stringContaining("EROFS: read-only file system"),
    })
  })

  it("fail a creation with the kernel's errno when the rights are lost later", async () => {
    const { cgroups, group } = await openHere()
    const created = asNobody(() => cgroups.create(newId.sandbox(), SMALL))
    await expect(created).rejects.toMatchObject({
      code: "backend.cgroups_unavailable",
      details: { errno: "EACCES", path: expect.stringContaining(group) },
    })
    expect(await leftovers(group)).toEqual([])
  })

  it("fail setting limits of a sandbox that is gone", async () => {
    const { cgroups } = await openHere()
    const set = cgroups.open(newId.sandbox()).setLimits(SMALL)
    await expect(set).rejects.toMatchObject({ code: "backend.unknown_sandbox" })
  })
})

const WITHOUT_V2 = "this host has no v2 hierarchy"
const onV2 =
  HOST.v2 === undefined
    ? (title: string, body: () => void) => describe.skip(withReason(title, WITHOUT_V2), body)
    : requires("root").describe

onV2("a part of the v2 hierarchy that is delegated to a user", () => {
  it("takes the sandboxes beside the server's own cgroup", async () => {
    const slice = `berth-test-${newId.session()}`
    const service = join(HOST.v2 ?? "", slice, "server.service")
    await mkdir(service, { recursive: true })
    const rights = [dirname(service), service].flatMap((it) => [it, join(it, "cgroup.procs")])
    for (const path of rights) await chown(path, NOBODY, NOBODY)
    onTestFinished(async () => {
      await rmdir(service)
      await rmdir(dirname(service))
    })
    const options = {
      procMounts: await onlyV2(),
      procCgroup: await fileWith(`0::/${slice}/server.service\n`),
    }
    const group = `berth-${newId.installation()}`
    const sandbox = newId.sandbox()
    const { cgroups, cgroup } = await asNobody(async () => {
      const opened = await openCgroups({ group, ...options }, soon())
      return { cgroups: opened, cgroup: await opened.create(sandbox, SMALL) }
    })
    expect(cgroups.held.pause).toEqual({ held: true })
    expect(cgroup.path).toBe(`/${slice}/${group}/${sandbox}`)
    const { ended } = await shellInside(cgroup, "exec sleep 1000")
    await asNobody(async () => {
      await cgroup.freeze(soon())
      await cgroup.thaw(soon())
      await cgroup.kill(soon())
      await cgroup.remove(soon())
    })
    expect((await ended).signal).toBe("SIGKILL")
  })
})
