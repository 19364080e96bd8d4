import { execFileSync } from "node:child_process"
import {
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Slug } from "@berth/protocol/ids"
import { Overlay } from "@berth/protocol/sandbox"
import { requires } from "@berth/testing/requires"
import { expect, it, onTestFinished } from "vitest"
import { prepareInStack } from "./prepare-in-stack.ts"

const ID_BASE = 100_000
const AGENT = ID_BASE + 1000

const { signal } = new AbortController()

/** A top on one layer; nothing is mounted. */
const makeStack = () => {
  const base = mkdtempSync(join(tmpdir(), "berth-stack-"))
  onTestFinished(() => rmSync(base, { recursive: true }))
  for (const name of ["layer", "top", "work"]) mkdirSync(join(base, name))
  const overlay = Overlay.parse({
    stack: Slug.parse("home"),
    base,
    lower: ["layer"],
    upper: "top",
    work: "work",
    options: ["redirect_dir=on", "lowerdir=layer", "upperdir=top", "workdir=work"],
  })
  const prepare = () => prepareInStack(overlay, ".cargo/registry", ID_BASE, signal)
  const see = (script: string): string =>
    execFileSync(
      "unshare",
      [
        ...["--mount", "--propagation=private", "sh", "-ec"],
        `mount -t overlay overlay -o ${overlay.options.join(",")} /tmp; cd /tmp; ${script}`,
      ],
      { cwd: base, encoding: "utf8" },
    )
  return { base, prepare, see }
}

requires("root").describe("a directory in files that are not mounted", () => {
  it("is made for the agent's user, with those above it, and nothing stays mounted", async () => {
    const { base, prepare, see } = makeStack()
    await prepare()
    await prepare()
    expect(see("stat -c '%u %a' .cargo .cargo/registry")).toBe(`${AGENT} 755\n${AGENT} 755\n`)
    expect(readFileSync("/proc/self/mountinfo", "utf8")).not.toContain(base)
  })

  it("is left as it is where a layer has it", async () => {
    const { base, prepare, see } = makeStack()
    mkdirSync(join(base, "layer", ".cargo", "registry"), { recursive: true, mode: 0o700 })
    writeFileSync(join(base, "layer", ".cargo", "config.toml"), "mine")
    chownSync(join(base, "layer", ".cargo"), 7, 7)
    await prepare()
    expect(see("stat -c '%u %a' .cargo; cat .cargo/config.toml")).toBe("7 700\nmine")
    expect(readdirSync(join(base, "top"))).toEqual([])
  })

  it("does not bring back files of a removed directory", async () => {
    const { base, prepare, see } = makeStack()
    mkdirSync(join(base, "layer", ".cargo"))
    writeFileSync(join(base, "layer", ".cargo", "old"), "")
    see("rm -r .cargo")
    expect(lstatSync(join(base, "top", ".cargo")).isCharacterDevice()).toBe(true)
    await prepare()
    expect(see("stat -c %u .cargo; ls .cargo")).toBe(`${AGENT}\nregistry\n`)
  })

  it.each<[string, (path: string) => void]>([
    ["a link", (path) => symlinkSync("/nowhere/at/all", path)],
    ["a link to a directory", (path) => symlinkSync("/etc", path)],
    ["a file", (path) => writeFileSync(path, "mine")],
  ])("is refused where %s is in the way", async (_, put) => {
    const { base, prepare } = makeStack()
    put(join(base, "layer", ".cargo"))
    await expect(prepare()).rejects.toMatchObject({
      code: "backend.mount_invalid",
      details: { engineSaid: ".cargo is no directory" },
    })
    expect(readdirSync(join(base, "top"))).toEqual([])
    expect(existsSync("/etc/registry")).toBe(false)
  })
})
