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
import { BootPlan } from "@berth/protocol/boot-plan"
import { newId } from "@berth/protocol/ids"
import { LINK } from "@berth/protocol/link"
import { requires } from "@berth/testing/requires"
import { expect, it, onTestFinished } from "vitest"
import { pin, plantDeepTree } from "../../host/testing/stubborn.ts"
import { openLinks } from "./links.ts"

const OWNER = 123_456

const open = () => {
  const root = join(mkdtempSync(join(tmpdir(), "berth-links-")), "links")
  onTestFinished(() => rmSync(join(root, ".."), { recursive: true }))
  return { root, links: openLinks({ root, owner: OWNER }) }
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

requires("root").describe("links", () => {
  it("give token and plan to root inside, and to no other user", async () => {
    const { root, links } = open()
    const told = plan()
    const link = await links.make(told)
    expect(modeOf(link.directory)).toEqual(["700", OWNER, OWNER])
    for (const name of [LINK.token, LINK.plan])
      expect(modeOf(join(link.directory, name))).toEqual(["600", OWNER, OWNER])
    expect(readFileSync(join(link.directory, LINK.token), "utf8")).toBe(link.token)
    expect(JSON.parse(readFileSync(join(link.directory, LINK.plan), "utf8"))).toEqual(told)
    expect(link.token).toMatch(/^[\w-]{43}$/)
    // The server's own copy is out of the sandbox's reach.
    expect(modeOf(join(root, told.sandbox, "token"))).toEqual(["600", 0, 0])
  })

  it("are found again unchanged, and have another token for each sandbox", async () => {
    const { links } = open()
    const [one, other] = [await links.make(plan()), await links.make(plan())]
    expect(one.token).not.toBe(other.token)
    expect(await links.find(one.sandbox)).toEqual(one)
    expect((await links.make(plan(one.sandbox))).token).toBe(one.token)
    expect((await links.list()).sort()).toEqual([one.sandbox, other.sandbox].sort())
    await links.remove(one.sandbox)
    await links.remove(one.sandbox)
    expect(await links.find(one.sandbox)).toBeUndefined()
    expect(await links.latest()).toBe(other.sandbox)
  })

  it("do not write through links that a sandbox has put in place of its files", async () => {
    const { root, links } = open()
    const link = await links.make(plan())
    const victim = join(root, "victim")
    writeFileSync(victim, "precious")
    for (const name of [LINK.token, LINK.plan]) {
      rmSync(join(link.directory, name))
      symlinkSync(victim, join(link.directory, name))
    }
    await links.make(plan(link.sandbox))
    expect(readFileSync(victim, "utf8")).toBe("precious")
    expect(lstatSync(join(link.directory, LINK.plan)).isFile()).toBe(true)
  })

  it("are made anew over deep trees of a sandbox, and removed with them", async () => {
    const { root, links } = open()
    const link = await links.make(plan())
    rmSync(join(link.directory, LINK.plan))
    mkdirSync(join(link.directory, LINK.plan))
    plantDeepTree(join(link.directory, LINK.plan))
    await links.make(plan(link.sandbox))
    expect(lstatSync(join(link.directory, LINK.plan)).isFile()).toBe(true)
    plantDeepTree(link.directory)
    expect(await links.remove(link.sandbox)).toBeUndefined()
    expect(existsSync(join(root, link.sandbox))).toBe(false)
  })

  it("[R1.4] that cannot be removed say why, are still listed, and hold up no other", async () => {
    const { links } = open()
    const [stuck, well] = [await links.make(plan()), await links.make(plan())]
    pin(join(stuck.directory, LINK.plan))
    expect(await links.remove(stuck.sandbox)).toMatchObject({
      code: "backend.engine_failed",
      details: { systemSaid: expect.stringContaining("Operation not permitted") },
    })
    expect(await links.remove(well.sandbox)).toBeUndefined()
    expect(await links.list()).toEqual([stuck.sandbox])
  })

  it("that were left half-made are not found, and are made whole", async () => {
    const { root, links } = open()
    const told = plan()
    mkdirSync(join(root, told.sandbox, "inside"), { recursive: true })
    writeFileSync(join(root, told.sandbox, "inside", LINK.token), "half")
    expect(await links.find(told.sandbox)).toBeUndefined()
    const link = await links.make(told)
    expect(await links.find(told.sandbox)).toEqual(link)
  })

  it("fail with a typed error where they cannot be made", async () => {
    const { root } = open()
    writeFileSync(root, "a file in the way")
    await expect(openLinks({ root, owner: OWNER }).make(plan())).rejects.toMatchObject({
      code: "backend.engine_failed",
    })
  })
})
