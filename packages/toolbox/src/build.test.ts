import { execFileSync } from "node:child_process"
import {
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs"
import { join } from "node:path"
import { TOOLBOX_MANIFEST, ToolboxManifest, type ToolboxProgress } from "@berth/protocol/toolbox"
import { describe, expect, it } from "vitest"
import type { InputPart, ToolboxInput } from "./inputs/input.ts"
import { makeInputs, put } from "./testing/fake-inputs.ts"
import { makeDirectory, modeOf, namesLeft, openForTest } from "./testing/open-for-test.ts"

describe("a build", () => {
  it("makes one tree that everyone may read and nobody may write, with its manifest", async () => {
    const { toolboxes, inputs, signal } = openForTest()
    const { id, directory, manifest, outcome } = await toolboxes.build(inputs, { signal })
    expect(outcome).toBe("built")
    const read = (path: string) => readFileSync(join(directory, path), "utf8")
    expect(ToolboxManifest.parse(JSON.parse(read(TOOLBOX_MANIFEST)))).toEqual(manifest)
    expect(manifest.id).toBe(id)
    expect(manifest.entries).toEqual([
      { name: "node", version: "24.0.0", main: "bin/node" },
      { name: "agent", version: "1.2.3", main: "agents/agent/bin/agent" },
    ])
    expect(read("agents/agent/lib/part-3/file-8.js")).toBe("export const n = 8\n")
    expect(read("agents/agent/config.json")).toBe('{"made":true}\n')
    expect(read("bin/agent")).toContain("echo agent")
    expect(readlinkSync(join(directory, "agents/agent/lib/link-to-directory"))).toBe("part-0")
    for (const [path, mode] of [
      ["", "555"],
      ["agents/agent/lib/part-3", "555"],
      ["bin/node", "555"],
      ["agents/agent/config.json", "444"],
      ["agents/agent/lib/empty.js", "444"],
      [TOOLBOX_MANIFEST, "444"],
    ] as const)
      expect([path, modeOf(join(directory, path))]).toEqual([path, mode])
    expect((await toolboxes.verify(id, { signal })).problems).toEqual([])
  })

  it("derives the id of a toolbox from its contents, and from nothing else", async () => {
    const { toolboxes, inputs, signal } = openForTest()
    const idOf = async (each: readonly ToolboxInput[]) =>
      (await toolboxes.build(each, { signal })).id
    const id = await idOf(inputs)
    expect(await idOf(makeInputs(join(makeDirectory(), "elsewhere")))).toBe(id)

    const [node, agent] = inputs as [ToolboxInput, ToolboxInput]
    const other = join(makeDirectory(), "node")
    put(other, "another node", 0o755)
    const quiet = join(makeDirectory(), "node")
    put(quiet, readFileSync(node.parts[0]?.kind === "file" ? node.parts[0].from : ""), 0o644)
    const file = (from: string): InputPart => ({ kind: "file", from, to: "bin/node" })
    const ids = [
      id,
      await idOf([{ ...node, version: "24.0.1" }, agent]),
      await idOf([{ ...node, name: "deno" }, agent]),
      await idOf([{ ...node, parts: [file(other)] }, agent]),
      await idOf([{ ...node, parts: [file(quiet)] }, agent]),
      await idOf([node, { ...agent, parts: agent.parts.slice(0, 2) }]),
      await idOf([agent]),
    ]
    expect(new Set(ids).size).toBe(ids.length)
  })

  it("[R2.5] finds a toolbox that is there without reading it or its inputs", async () => {
    const { toolboxes, inputs, signal } = openForTest()
    const { id } = await toolboxes.build(inputs, { signal })
    const onProgress = () => expect.unreachable("nothing needs to be read")
    expect(await toolboxes.build(inputs, { signal, onProgress })).toMatchObject({
      id,
      outcome: "present",
    })
  })

  it("finds a toolbox by its contents when its inputs were only installed anew", async () => {
    const { root, toolboxes, inputsDirectory, inputs, signal } = openForTest()
    const { id } = await toolboxes.build(inputs, { signal })
    rmSync(inputsDirectory, { recursive: true })
    makeInputs(inputsDirectory)
    expect(await toolboxes.build(inputs, { signal })).toMatchObject({ id, outcome: "present" })
    expect(namesLeft(root)).toEqual([id])
  })

  it("is not reached by later changes of its inputs, and the next build has them", async () => {
    const { toolboxes, inputsDirectory, inputs, signal } = openForTest()
    const { id, directory } = await toolboxes.build(inputs, { signal })
    writeFileSync(join(inputsDirectory, "agent/lib/part-0/file-0.js"), "changed")
    writeFileSync(join(inputsDirectory, "node"), "changed")
    expect((await toolboxes.verify(id, { signal })).status).toBe("intact")
    const next = await toolboxes.build(inputs, { signal })
    expect(next).toMatchObject({ outcome: "built" })
    expect(next.id).not.toBe(id)
    expect(readFileSync(join(next.directory, "bin/node"), "utf8")).toBe("changed")
    expect(readFileSync(join(directory, "bin/node"), "utf8")).toContain("node node")
  })

  it("works without its inputs once it is done", async () => {
    const { toolboxes, inputsDirectory, inputs, signal } = openForTest()
    const { id } = await toolboxes.build(inputs, { signal })
    rmSync(inputsDirectory, { recursive: true })
    expect(await toolboxes.open(id, { signal })).toMatchObject({ id })
    expect((await toolboxes.verify(id, { signal })).status).toBe("intact")
  })

  it("reports its progress in each step, up to the last byte", async () => {
    const { toolboxes, inputs, signal } = openForTest()
    const told: ToolboxProgress[] = []
    const { manifest } = await toolboxes.build(inputs, {
      signal,
      onProgress: (at) => told.push(at),
    })
    const bytes = manifest.files.reduce(
      (sum, each) => sum + (each.kind === "file" ? each.bytes : 0),
      0,
    )
    for (const step of ["reading", "copying", "checking"] as const) {
      const of = told.filter((each) => each.step === step)
      expect(new Set(of.map(({ entry }) => entry))).toEqual(new Set(["node", "agent"]))
      const done = of.map(({ bytesDone }) => bytesDone)
      expect(done).toEqual([...done].sort((one, other) => one - other))
      expect(of.every(({ bytesTotal }) => bytesTotal === bytes)).toBe(true)
    }
    expect(told.at(-1)).toMatchObject({ step: "checking", bytesDone: bytes })
  })
})

describe("a build that fails", () => {
  const nothingLeft = (root: string) => expect(namesLeft(root)).toEqual([])

  it.each<[string, (directory: string) => void, object]>([
    ["a file is missing", (dir) => rmSync(join(dir, "node")), { entry: "node" }],
    ["a file is empty", (dir) => truncateSync(join(dir, "node")), { entry: "node" }],
    [
      "a tree is missing",
      (dir) => rmSync(join(dir, "agent"), { recursive: true }),
      { entry: "agent" },
    ],
    [
      "a tree is empty",
      (dir) => {
        rmSync(join(dir, "agent"), { recursive: true })
        put(join(dir, "agent/lib/only-empty"), "")
      },
      { entry: "agent" },
    ],
    [
      "an entry's main file is missing in its tree",
      (dir) => {
        rmSync(join(dir, "agent/bin/agent"))
        put(join(dir, "agent/else"), "x")
      },
      { entry: "agent", path: "agents/agent/bin/agent" },
    ],
    [
      "an entry's main file is empty in its tree",
      (dir) => truncateSync(join(dir, "agent/bin/agent")),
      { entry: "agent", path: "agents/agent/bin/agent" },
    ],
  ])("[R2.6] stops when %s, and names it", async (_, damage, details) => {
    const { root, toolboxes, inputsDirectory, inputs, signal } = openForTest()
    damage(inputsDirectory)
    const failure = await toolboxes.build(inputs, { signal }).catch((thrown: unknown) => thrown)
    expect(failure).toMatchObject({
      code: "toolbox.input_missing",
      details,
      message: expect.stringMatching(/needs (node|agent), and .*\/.* is (missing|empty)/),
    })
    nothingLeft(root)
  })

  it.each<[string, (directory: string) => void]>([
    ["a link that leads out", (dir) => symlinkSync("../../../../etc", join(dir, "agent/out"))],
    ["a link with an absolute target", (dir) => symlinkSync("/etc", join(dir, "agent/out"))],
    ["a link to nothing", (dir) => symlinkSync("nothing", join(dir, "agent/out"))],
    ["a pipe", (dir) => execFileSync("mkfifo", [join(dir, "agent/out")])],
  ])("refuses %s", async (_, add) => {
    const { root, toolboxes, inputsDirectory, inputs, signal } = openForTest()
    add(inputsDirectory)
    await expect(toolboxes.build(inputs, { signal })).rejects.toMatchObject({
      code: "toolbox.input_refused",
      details: { entry: "agent", path: expect.stringMatching(/agent\/out$/) },
    })
    nothingLeft(root)
  })

  it("names an input that is a file and should be a directory", async () => {
    const { root, toolboxes, inputsDirectory, inputs, signal } = openForTest()
    const agent = join(inputsDirectory, "agent")
    rmSync(agent, { recursive: true })
    writeFileSync(agent, "x")
    await expect(toolboxes.build(inputs, { signal })).rejects.toMatchObject({
      code: "toolbox.input_refused",
      details: { entry: "agent", path: agent },
    })
    nothingLeft(root)
  })

  it.each<[string, InputPart]>([
    ["two files of one name", { kind: "text", text: "x", to: "bin/node" }],
    ["a file in a file", { kind: "text", text: "x", to: "bin/node/x" }],
    ["a file beside the tree", { kind: "text", text: "x", to: "../x" }],
    ["a second manifest", { kind: "text", text: "x", to: "manifest.json" }],
  ])("refuses %s", async (_, part) => {
    const { root, toolboxes, inputs, signal } = openForTest()
    const extra = { name: "extra", version: "1", main: part.to, parts: [part] }
    await expect(toolboxes.build([...inputs, extra], { signal })).rejects.toMatchObject({
      code: "toolbox.input_refused",
      details: { entry: "extra" },
    })
    nothingLeft(root)
  })

  it("[R2.6] notices an input that changes between being read and being copied", async () => {
    const { root, toolboxes, inputsDirectory, inputs, signal } = openForTest({
      at: (step) => {
        if (step === "described") put(join(inputsDirectory, "node"), "changed", 0o755)
      },
    })
    await expect(toolboxes.build(inputs, { signal })).rejects.toMatchObject({
      code: "toolbox.input_changed",
      details: { entry: "node", path: "bin/node" },
    })
    nothingLeft(root)
  })

  it("is not taken for the toolbox of an input that changed after it was copied", async () => {
    const { toolboxes, inputsDirectory, inputs, signal } = openForTest({
      at: (step) => {
        if (step === "written") put(join(inputsDirectory, "node"), "changed", 0o755)
      },
    })
    const first = await toolboxes.build(inputs, { signal })
    expect(readFileSync(join(first.directory, "bin/node"), "utf8")).toContain("node node")
    const second = await toolboxes.build(inputs, { signal })
    expect(readFileSync(join(second.directory, "bin/node"), "utf8")).toBe("changed")
  })

  it("leaves nothing when it is cancelled at any step before the flush", async () => {
    const steps: string[] = []
    const whole = openForTest({ at: (step) => void steps.push(step) })
    await whole.toolboxes.build(whole.inputs, { signal: whole.signal })
    expect(steps).toEqual([
      ...["described", "staged", "copied agent", "copied node", "written", "checked", "flushed"],
      ...["installed", "sealed"],
    ])
    for (const step of steps.slice(0, steps.indexOf("flushed"))) {
      const controller = new AbortController()
      const { root, toolboxes, inputs } = openForTest({
        at: (at) => {
          if (at === step) controller.abort()
        },
      })
      const building = toolboxes.build(inputs, { signal: controller.signal })
      await expect(building, step).rejects.toMatchObject({ code: "cancelled" })
      expect(namesLeft(root), step).toEqual([])
    }
  })
})
