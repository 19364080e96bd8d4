import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import os from "node:os"
import path from "node:path"
import { text } from "node:stream/consumers"
import { afterEach, beforeEach, describe, expect, it } from "vitest"

let folder: string

beforeEach(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), "berth-bench-"))
  const module = new URL("start.ts", import.meta.url).href
  await writeFile(
    path.join(folder, "run.mjs"),
    `import { start } from "${module}"; await start(import.meta.dirname)`,
  )
})
afterEach(() => rm(folder, { recursive: true }))

const SOUND = `
  what: "two / one", unit: "ms", bound: { of: "ratio", atMost: 2.5 }, statistic: "median", runs: 7,
  prepare: async () => {}, ours: async () => 2, other: async () => 1,`

const write = (name: string, changes = "") =>
  writeFile(path.join(folder, `${name}.ts`), `export default {${SOUND}${changes}}`)

/** Starts the command in a process of its own, on the benchmarks of the test. */
function start(...args: string[]) {
  const program = path.join(folder, "run.mjs")
  return spawn(process.execPath, [program, ...args], { stdio: ["ignore", "pipe", "pipe"] })
}

async function bench(...args: string[]) {
  const child = start(...args)
  const [stdout, stderr, [status]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, "exit"),
  ])
  return { stdout, stderr, status }
}

describe("npm run bench", () => {
  it("prints a table and the machine", async () => {
    await write("a.first")
    await write("b.second", "ours: async () => 3")
    const { stdout, status } = await bench()
    expect(stdout).toContain(`node ${process.version}`)
    expect(stdout).toMatch(/cores, .* GiB, Linux /)
    expect(stdout).toMatch(/^name +ours +other +unit +figure +limit +runs +holds +note$/m)
    expect(stdout).toMatch(/^a\.first +2 +1 +ms +2 +2\.5 +7 +yes +median of ours/m)
    expect(stdout).toMatch(/^b\.second +3 +1 +ms +3 +2\.5 +7 +NO +median of ours/m)
    expect(status).toBe(0)
  })

  it("prints one JSON array and nothing else with --json, on one line", async () => {
    await write("a.first")
    await write("b.second")
    const { stdout, stderr, status } = await bench("--only", "b.second", "--json")
    expect(stdout.trimEnd()).not.toContain("\n")
    expect(JSON.parse(stdout)).toEqual([
      {
        name: "b.second",
        ours: 2,
        other: 1,
        unit: "ms",
        ratio: 2,
        limit: 2.5,
        holds: true,
        runs: 7,
        note: "median of ours / median of other, at most 2.5",
      },
    ])
    expect(stderr).toContain("b.second: two / one, 7 runs")
    expect(status).toBe(0)
  })

  it("runs several benchmarks by name, in the order given", async () => {
    for (const name of ["a", "b", "c"]) await write(name)
    const { stdout } = await bench("--only", "c", "--only", "a", "--json")
    expect(JSON.parse(stdout).map(({ name }: { name: string }) => name)).toEqual(["c", "a"])
  })

  it("runs the other benchmarks when one fails or does not load", async () => {
    await write("a.fails", "ours: async () => { throw new Error('broken') }")
    await writeFile(path.join(folder, "b.unreadable.ts"), "export default {")
    await write("c.sound")
    const { stdout, status } = await bench("--json")
    expect(JSON.parse(stdout)).toMatchObject([
      { name: "a.fails", ratio: null, holds: false, note: "failed: broken" },
      {
        name: "b.unreadable",
        ratio: null,
        holds: false,
        note: expect.stringMatching(/^does not load/),
      },
      { name: "c.sound", ratio: 2, holds: true },
    ])
    expect(status).toBe(0)
  })

  it("fails with --strict when a bound does not hold, and only then", async () => {
    await write("a.sound")
    await write("b.slow", "ours: async () => 3")
    expect((await bench("--strict", "--only", "a.sound")).status).toBe(0)
    expect((await bench("--strict")).status).toBe(1)
  })

  it("refuses a name that does not exist, and lists the existing ones", async () => {
    await write("a.first")
    await write("b.second")
    expect(await bench("--only", "c.third", "--json")).toEqual({
      stdout: "",
      stderr: 'There is no benchmark "c.third". There are: a.first, b.second\n',
      status: 2,
    })
  })

  it("refuses an unknown option with the usage", async () => {
    expect(await bench("--fast")).toMatchObject({
      stdout: "",
      stderr: expect.stringMatching(/--fast[\s\S]*npm run bench -- \[--only NAME\]/),
      status: 2,
    })
  })

  it("cleans up on Ctrl-C, ends its processes, and prints no result", async () => {
    const pidFile = path.join(folder, "pid")
    const endFile = path.join(folder, "end")
    await writeFile(
      path.join(folder, "a.long.ts"),
      `import { writeFileSync } from "node:fs"
       import { spawn } from "node:child_process"
       import { once } from "node:events"
       export default {${SOUND}
         prepare: async ({ onEnd }) => onEnd(() => writeFileSync(${JSON.stringify(endFile)}, "cleaned")),
         ours: async (_, signal) => {
           const child = spawn("sleep", ["1000"], { signal })
           writeFileSync(${JSON.stringify(pidFile)}, String(child.pid))
           process.stderr.write("ours is running\\n")
           await once(child, "exit")
         },
       }`,
    )
    const child = start("--json")
    const stdout = text(child.stdout)
    for await (const chunk of child.stderr)
      if (String(chunk).includes("ours is running")) child.kill("SIGINT")
    expect(child.exitCode ?? (await once(child, "exit"))[0]).toBe(130)
    expect(await stdout).toBe("")
    expect(await readFile(endFile, "utf8")).toBe("cleaned")
    const pid = Number(await readFile(pidFile, "utf8"))
    expect(() => process.kill(pid, 0)).toThrow("ESRCH")
  })
})
