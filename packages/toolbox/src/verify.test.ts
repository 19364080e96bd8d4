import { execFileSync } from "node:child_process"
import { randomUUID } from "node:crypto"
import {
  chmodSync,
  chownSync,
  copyFileSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { join } from "node:path"
import {
  TOOLBOX_MANIFEST,
  ToolboxId,
  type ToolboxManifest,
  type ToolboxProblem,
} from "@berth/protocol/toolbox"
import { requires } from "@berth/testing/requires"
import { describe, expect, it } from "vitest"
import { idOf, renderManifest } from "./manifest.ts"
import { namesLeft, openForTest } from "./testing/open-for-test.ts"

const FILE = "agents/agent/lib/part-1/file-1.js"
const LINK = "agents/agent/lib/link-to-file"

type Change = [what: string, change: (at: (path: string) => string) => void, problem: object]

const writeTo = (path: string, text: string) => {
  const { mode } = statSync(path)
  chmodSync(path, 0o644)
  writeFileSync(path, text)
  chmodSync(path, mode)
}

const CHANGES: Change[] = [
  [
    "a file with other contents",
    (at) => writeTo(at(FILE), "x"),
    { path: FILE, problem: "content" },
  ],
  [
    "a file with other contents of the same size and time",
    (at) => {
      const { size } = statSync(at(FILE))
      const times = join(at(""), "..", "times")
      execFileSync("cp", ["-p", at(FILE), times])
      writeTo(at(FILE), "x".repeat(size))
      execFileSync("touch", ["-r", times, at(FILE)])
      rmSync(times)
    },
    { path: FILE, problem: "content" },
  ],
  ["a missing file", (at) => rmSync(at(FILE)), { path: FILE, problem: "missing" }],
  [
    "an added file",
    (at) => writeFileSync(at("bin/more"), "x"),
    { path: "bin/more", problem: "added" },
  ],
  [
    "another mode of a file",
    (at) => chmodSync(at(FILE), 0o666),
    { path: FILE, problem: "mode", expected: "444", found: "666" },
  ],
  [
    "a program that runs as its owner",
    (at) => chmodSync(at("bin/node"), 0o4555),
    { path: "bin/node", problem: "mode", expected: "555", found: "4555" },
  ],
  [
    "another mode of a directory",
    (at) => chmodSync(at("bin"), 0o777),
    { path: "bin", problem: "mode", expected: "555", found: "777" },
  ],
  [
    "a link to elsewhere",
    (at) => {
      rmSync(at(LINK))
      symlinkSync("/bin/sh", at(LINK))
    },
    { path: LINK, problem: "target", expected: "../bin/agent", found: "/bin/sh" },
  ],
  [
    "a file in place of a link",
    (at) => {
      rmSync(at(LINK))
      writeFileSync(at(LINK), "x")
    },
    { path: LINK, problem: "kind", expected: "link", found: "file" },
  ],
]

requires("root").describe("a toolbox that was changed after it was built", () => {
  it.each(CHANGES)("is told from the one that was built: %s", async (_, change, problem) => {
    const { toolboxes, inputs, signal } = openForTest()
    const { id, directory } = await toolboxes.build(inputs, { signal })
    expect(await toolboxes.verify(id, { signal })).toMatchObject({ status: "intact", problems: [] })
    change((path) => join(directory, path))
    expect(await toolboxes.verify(id, { signal })).toMatchObject({
      status: "changed",
      problems: [problem],
    })
  })

  it.each(CHANGES)("is refused, and set aside by a rebuild: %s", async (_, change, problem) => {
    const { root, toolboxes, inputs, signal } = openForTest()
    const { id, directory } = await toolboxes.build(inputs, { signal })
    change((path) => join(directory, path))
    await expect(toolboxes.open(id, { signal })).rejects.toMatchObject({
      code: "toolbox.changed",
      details: { id, problems: [problem] },
    })
    expect((await toolboxes.list({ signal }))[0]).toMatchObject({ id, status: "unchecked" })

    const rebuilt = await toolboxes.build(inputs, { signal })
    expect(rebuilt).toMatchObject({ id, outcome: "rebuilt", problems: [problem] })
    expect((await toolboxes.verify(id, { signal })).status).toBe("intact")
    // Sandboxes that have the changed toolbox mounted keep it.
    const aside = namesLeft(root).filter((name) => name.startsWith(`changed-${id}-`))
    expect(aside).toHaveLength(1)
    expect(await toolboxes.collect(new Set([id]))).toEqual([])
    expect(namesLeft(root)).toEqual([...aside, id])
    expect(await toolboxes.collect(new Set())).toEqual([id])
    expect(namesLeft(root)).toEqual([])
  })

  it("is reported with the owner of a file that root should own", async () => {
    const { toolboxes, inputs, signal } = openForTest()
    const { id, directory } = await toolboxes.build(inputs, { signal })
    chownSync(join(directory, FILE), 100_000, 0)
    expect((await toolboxes.verify(id, { signal })).problems).toEqual([
      { path: FILE, problem: "owner", expected: "0", found: "100000" },
    ])
  })

  it("is reported with every change, not only the first", async () => {
    const { toolboxes, inputs, signal } = openForTest()
    const { id, directory, manifest } = await toolboxes.build(inputs, { signal })
    rmSync(join(directory, "agents"), { recursive: true })
    writeFileSync(join(directory, "bin/more"), "x")
    const { problems, files } = await toolboxes.verify(id, { signal })
    const missing = problems.filter(({ problem }) => problem === "missing")
    expect(missing.length).toBeGreaterThan(20)
    expect(problems.filter(({ problem }) => problem !== "missing")).toEqual([
      { path: "bin/more", problem: "added" },
    ])
    expect(files).toBe(manifest.files.length)
  })

  it("is read again, and found intact, when only its inodes and times differ", async () => {
    const { root, toolboxes, inputs, signal } = openForTest()
    const { id, directory } = await toolboxes.build(inputs, { signal })
    const copy = join(root, "copy")
    execFileSync("cp", ["-a", directory, copy])
    rmSync(directory, { recursive: true })
    renameSync(copy, directory)
    expect((await toolboxes.list({ signal }))[0]).toMatchObject({ status: "unchecked" })
    expect(await toolboxes.open(id, { signal })).toMatchObject({ id })
    expect((await toolboxes.list({ signal }))[0]).toMatchObject({ status: "intact" })
  })

  it.each([
    ["missing", (seal: string) => rmSync(seal)],
    ["torn", (seal: string) => writeFileSync(seal, '{"tree":"')],
    ["of another toolbox", (seal: string) => writeFileSync(seal, '{"tree":"x","inputs":"y"}')],
  ])("can be used with a seal that is %s", async (_, damage) => {
    const { root, toolboxes, inputs, signal } = openForTest()
    const { id } = await toolboxes.build(inputs, { signal })
    damage(join(root, "seals", `${id}.json`))
    expect(await toolboxes.open(id, { signal })).toMatchObject({ id })
    expect(await toolboxes.build(inputs, { signal })).toMatchObject({ id, outcome: "present" })
  })
})

requires("root").describe("a manifest that lies", () => {
  const lie = async (change: (manifest: ToolboxManifest) => ToolboxManifest) => {
    const opened = openForTest()
    const { toolboxes, inputs, signal } = opened
    const { id, directory, manifest } = await toolboxes.build(inputs, { signal })
    writeFileSync(join(directory, TOOLBOX_MANIFEST), renderManifest(change(manifest)))
    const problem = async (of: ToolboxId = id): Promise<ToolboxProblem | undefined> => {
      await expect(toolboxes.open(of, { signal })).rejects.toMatchObject({
        code: "toolbox.changed",
      })
      return (await toolboxes.verify(of, { signal })).problems[0]
    }
    return { ...opened, id, directory, problem }
  }
  const said = (found: string) => ({
    path: TOOLBOX_MANIFEST,
    problem: "manifest",
    found: expect.stringContaining(found),
  })

  it("about contents is not believed, even if the tree agrees with it", async () => {
    const { problem, directory } = await lie((manifest) => ({
      ...manifest,
      files: manifest.files.map((file) =>
        file.path === FILE && file.kind === "file"
          ? {
              ...file,
              bytes: 1,
              sha256: "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881",
            }
          : file,
      ),
    }))
    writeFileSync(join(directory, FILE), "x")
    expect(await problem()).toEqual(said("lists what would be tb-"))
  })

  it("about versions is not believed", async () => {
    const { problem } = await lie(({ entries: [first, ...rest], ...manifest }) => ({
      ...manifest,
      entries: [{ ...first, version: "99" } as never, ...rest],
    }))
    expect(await problem()).toEqual(said("lists what would be tb-"))
  })

  it("about its own id is not believed", async () => {
    const { problem } = await lie((manifest) => ({ ...manifest, id: otherId() }))
    expect(await problem()).toEqual(said("is that of tb-"))
  })

  it.each<[string, (manifest: ToolboxManifest) => Partial<ToolboxManifest>, string]>([
    [
      "about an entry that is not there",
      ({ files }) => ({ files: files.filter(({ path }) => path !== "bin/node") }),
      "has no file bin/node for node",
    ],
    [
      "about an entry that is empty",
      ({ files }) => ({
        files: files.map((file) => (file.path === "bin/node" ? { ...file, bytes: 0 } : file)),
      }),
      "has an empty file bin/node for node",
    ],
    [
      "about a link that leads out",
      ({ files }) => ({
        files: files.map((file) => (file.path === LINK ? { ...file, target: "/etc" } : file)),
      }),
      "has a link that leads out of the tree",
    ],
  ])("%s is not believed, even under the id that fits it", async (_, change, found) => {
    const { root, directory, problem } = await lie((manifest) => {
      const changed = { ...manifest, ...change(manifest) }
      return { ...changed, id: idOf(changed) }
    })
    const { id } = JSON.parse(readFileSync(join(directory, TOOLBOX_MANIFEST), "utf8"))
    renameSync(directory, join(root, id))
    expect(await problem(id)).toEqual(said(found))
  })

  it.each([
    ["missing", (path: string) => rmSync(path)],
    ["torn", (path: string) => writeFileSync(path, '{"format":1,')],
    ["of another format", (path: string) => writeFileSync(path, '{"format":2}')],
    ["empty", (path: string) => writeFileSync(path, "")],
  ])("is not believed when it is %s", async (_, damage) => {
    const { directory, toolboxes, problem, signal } = await lie((manifest) => manifest)
    damage(join(directory, TOOLBOX_MANIFEST))
    expect(await problem()).toEqual(said("cannot be read"))
    expect((await toolboxes.list({ signal }))[0]).toMatchObject({ status: "damaged" })
  })
})

describe("collecting", () => {
  it("keeps a toolbox in use and the files of others, and removes the other toolboxes", async () => {
    const { root, toolboxes, inputs, signal } = openForTest()
    const versions = ["1", "2", "3"].map((version) =>
      inputs.map((input) => ({ ...input, version })),
    )
    const ids: ToolboxId[] = []
    for (const each of versions) ids.push((await toolboxes.build(each, { signal })).id)
    copyFileSync(join(root, "seals", `${ids[0]}.json`), join(root, "notes of somebody else"))
    const removed = await toolboxes.collect(new Set([ids[1] as ToolboxId]))
    expect(removed.sort()).toEqual([ids[0], ids[2]].sort())
    expect(namesLeft(root).sort()).toEqual(["notes of somebody else", ids[1]].sort())
    expect((await toolboxes.list({ signal })).map(({ id }) => id)).toEqual([ids[1]])
    expect(await toolboxes.collect(new Set([ids[1] as ToolboxId]))).toEqual([])
  })

  it("removes and lists nothing where there is no toolbox", async () => {
    const { toolboxes, signal } = openForTest()
    expect(await toolboxes.collect(new Set())).toEqual([])
    expect(await toolboxes.list({ signal })).toEqual([])
    await expect(toolboxes.verify(otherId(), { signal })).rejects.toMatchObject({
      code: "toolbox.unknown",
    })
  })
})

const otherId = () => ToolboxId.parse(`tb-${randomUUID().replaceAll("-", "")}00000000`)
