import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { pin, plantDeepTree } from "@berth/host/testing/stubborn"
import { BootPlan } from "@berth/protocol/boot-plan"
import { newId } from "@berth/protocol/ids"
import { SHARED } from "@berth/protocol/shared-directory"
import { requires } from "@berth/testing/requires"
import { expect, it, onTestFinished } from "vitest"
import { openSharedDirectories } from "./shared-directories.ts"

const OWNER = 123_456

const open = () => {
  const root = join(mkdtempSync(join(tmpdir(), "berth-shared-")), "shared")
  onTestFinished(() => rmSync(join(root, ".."), { recursive: true }))
  return { root, sharedDirectories: openSharedDirectories({ root, owner: OWNER }) }
}

const plan = (sandbox = newId.sandbox()) =>
  BootPlan.parse({
    sandbox,
    mode: "fresh",
    repos: [],
    hooks: {},
    environment: {},
    agent: { kind: "shell" },
    sidecars: [],
  })

const modeOf = (path: string) => {
  const { mode, uid, gid } = lstatSync(path)
  return [(mode & 0o777).toString(8), uid, gid]
}

requires("root").describe("shared directories", () => {
  it("give token and plan to root inside, and to no other user", async () => {
    const { root, sharedDirectories } = open()
    const told = plan()
    const shared = await sharedDirectories.make(told)
    expect(modeOf(shared.directory)).toEqual(["700", OWNER, OWNER])
    for (const name of [SHARED.token, SHARED.plan])
      expect(modeOf(join(shared.directory, name))).toEqual(["600", OWNER, OWNER])
    expect(readFileSync(join(shared.directory, SHARED.token), "utf8")).toBe(shared.token)
    expect(JSON.parse(readFileSync(join(shared.directory, SHARED.plan), "utf8"))).toEqual(told)
    expect(shared.token).toMatch(/^[\w-]{43}$/)
    // The server's own copy is out of the sandbox's reach.
    expect(modeOf(join(root, told.sandbox, "token"))).toEqual(["600", 0, 0])
  })

  it("are found again unchanged, and have another token for each sandbox", async () => {
    const { sharedDirectories } = open()
    const [one, other] = [
      await sharedDirectories.make(plan()),
      await sharedDirectories.make(plan()),
    ]
    expect(one.token).not.toBe(other.token)
    expect(await sharedDirectories.find(one.sandbox)).toEqual(one)
    expect((await sharedDirectories.make(plan(one.sandbox))).token).toBe(one.token)
    expect((await sharedDirectories.list()).sort()).toEqual([one.sandbox, other.sandbox].sort())
    await sharedDirectories.remove(one.sandbox)
    await sharedDirectories.remove(one.sandbox)
    expect(await sharedDirectories.find(one.sandbox)).toBeUndefined()
    expect(await sharedDirectories.latest()).toBe(other.sandbox)
  })

  it("do not write through links that a sandbox has put in place of its files", async () => {
    const { root, sharedDirectories } = open()
    const shared = await sharedDirectories.make(plan())
    const victim = join(root, "victim")
    writeFileSync(victim, "precious")
    for (const name of [SHARED.token, SHARED.plan]) {
      rmSync(join(shared.directory, name))
      symlinkSync(victim, join(shared.directory, name))
    }
    await sharedDirectories.make(plan(shared.sandbox))
    expect(readFileSync(victim, "utf8")).toBe("precious")
    expect(lstatSync(join(shared.directory, SHARED.plan)).isFile()).toBe(true)
  })

  it("are made anew over deep trees of a sandbox, and removed with them", async () => {
    const { root, sharedDirectories } = open()
    const shared = await sharedDirectories.make(plan())
    rmSync(join(shared.directory, SHARED.plan))
    mkdirSync(join(shared.directory, SHARED.plan))
    plantDeepTree(join(shared.directory, SHARED.plan))
    await sharedDirectories.make(plan(shared.sandbox))
    expect(lstatSync(join(shared.directory, SHARED.plan)).isFile()).toBe(true)
    plantDeepTree(shared.directory)
    expect(await sharedDirectories.remove(shared.sandbox)).toBeUndefined()
    expect(existsSync(join(root, shared.sandbox))).toBe(false)
  })

  it("[R1.4] that cannot be removed say why, are still listed, and hold up no other", async () => {
    const { sharedDirectories } = open()
    const [stuck, well] = [
      await sharedDirectories.make(plan()),
      await sharedDirectories.make(plan()),
    ]
    pin(join(stuck.directory, SHARED.plan))
    expect(await sharedDirectories.remove(stuck.sandbox)).toMatchObject({
      code: "backend.engine_failed",
      details: { systemSaid: expect.stringContaining("Operation not permitted") },
    })
    expect(await sharedDirectories.remove(well.sandbox)).toBeUndefined()
    expect(await sharedDirectories.list()).toEqual([stuck.sandbox])
  })

  it("that were left half-made are not found, and are made whole", async () => {
    const { root, sharedDirectories } = open()
    const told = plan()
    mkdirSync(join(root, told.sandbox, "inside"), { recursive: true })
    writeFileSync(join(root, told.sandbox, "inside", SHARED.token), "half")
    expect(await sharedDirectories.find(told.sandbox)).toBeUndefined()
    const shared = await sharedDirectories.make(told)
    expect(await sharedDirectories.find(told.sandbox)).toEqual(shared)
  })

  it("fail with a typed error where they cannot be made", async () => {
    const { root } = open()
    writeFileSync(root, "a file in the way")
    await expect(openSharedDirectories({ root, owner: OWNER }).make(plan())).rejects.toMatchObject({
      code: "backend.engine_failed",
    })
  })
})
