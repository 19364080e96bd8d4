import { execFileSync } from "node:child_process"
import { readdirSync, readFileSync } from "node:fs"
import { mkdir, readFile, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { newId } from "@berth/protocol/ids"
import { describe, expect, it } from "vitest"
import { openCgroups } from "./open.ts"
import { KEPT_BYTES } from "./reclaim.ts"
import { onlyV2, SMALL, soon, temporaryDirectory } from "./testing/host.ts"

/** A sandbox's cgroup with the files that a v2 kernel with all controllers gives it. */
const FILES = {
  "memory.max": "max\n",
  "memory.swap.max": "max\n",
  "memory.current": "30000000\n",
  "memory.stat": "anon 9000000\nfile 21000000\ninactive_anon 7\ninactive_file 20000000\n",
  "memory.events": "low 0\nhigh 0\nmax 12\noom 2\noom_kill 2\noom_group_kill 0\n",
  "cpu.max": "max 100000\n",
  "cpu.stat": "usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\n",
  "pids.max": "max\n",
  "pids.current": "7\n",
  "cgroup.procs": "",
}

/** Plain files in place of the kernel's: they show what is written, and do not react to it. */
const playV2 = async (files: Readonly<Record<string, string>>, { handsOn = true } = {}) => {
  const mount = await temporaryDirectory()
  const [group, sandbox] = [`berth-${newId.installation()}`, newId.sandbox()]
  const directory = join(mount, group, sandbox)
  await mkdir(directory, { recursive: true })
  await writeFile(join(mount, "cgroup.controllers"), "cpuset cpu io memory pids\n")
  if (handsOn) await writeFile(join(mount, group, "cgroup.subtree_control"), "")
  await writeFile(join(mount, group, "cgroup.freeze"), "0\n")
  for (const [file, text] of Object.entries(files)) await writeFile(join(directory, file), text)
  const cgroups = await openCgroups({ group, procMounts: await onlyV2(mount) }, soon())
  const read = (file: string) => readFile(join(directory, file), "utf8")
  return {
    cgroups,
    sandbox,
    directory,
    read,
    subtreeControl: join(mount, group, "cgroup.subtree_control"),
  }
}

describe("the files of a v2 cgroup", () => {
  it("hold every limit where its parent hands the controllers on", async () => {
    const { cgroups } = await playV2(FILES)
    expect(cgroups.mode).toBe("v2")
    expect(Object.values(cgroups.held)).toEqual(Array(5).fill({ held: true }))
  })

  it("hold no limit where its parent does not, but pause and kill all the same", async () => {
    const { cgroups } = await playV2(FILES, { handsOn: false })
    for (const [limit, controller] of [
      ["memoryBytes", "memory"],
      ["cpus", "cpu"],
      ["pids", "pids"],
    ] as const) {
      const why = expect.stringContaining(`does not hand the ${controller} controller on (ENOENT`)
      expect(cgroups.held[limit]).toEqual({ held: false, why })
    }
    expect(cgroups.held.pause).toEqual({ held: true })
    expect(cgroups.held.kill).toEqual({ held: true })
  })

  it("take the limits in their own form, and no swap", async () => {
    const empty = Object.fromEntries(Object.keys(FILES).map((file) => [file, ""]))
    const { cgroups, sandbox, read, subtreeControl } = await playV2(empty)
    await cgroups.create(sandbox, { memoryBytes: 512 * 1024 * 1024, cpus: 1.5, pids: 99 })
    expect(await read("memory.max")).toBe("536870912")
    expect(await read("memory.swap.max")).toBe("0")
    expect(await read("cpu.max")).toBe("150000 100000")
    expect(await read("pids.max")).toBe("99")
    expect(await readFile(subtreeControl, "utf8")).toBe("+memory +pids +cpu")
  })

  it("may lack memory.swap.max, where the kernel has no swap", async () => {
    const { "memory.swap.max": _, ...withoutSwap } = FILES
    const { cgroups, sandbox } = await playV2(withoutSwap)
    await expect(cgroups.create(sandbox, SMALL)).resolves.toBeDefined()
  })

  it("count the processes killed for their memory", async () => {
    const { cgroups, sandbox } = await playV2(FILES)
    expect(await cgroups.open(sandbox).oomKills()).toBe(2)
  })

  it("give back all memory beyond the part that halted processes keep", async () => {
    const { cgroups, sandbox, read } = await playV2({
      ...FILES,
      "memory.current": `${KEPT_BYTES + 12_345}\n`,
      "memory.reclaim": "",
    })
    expect(cgroups.canReclaim).toBe(true)
    await cgroups.open(sandbox).reclaim(soon())
    expect(await read("memory.reclaim")).toBe("12345")
  })

  it("are left alone where there is little memory to take back", async () => {
    const { cgroups, sandbox, read } = await playV2({ ...FILES, "memory.reclaim": "" })
    await cgroups.open(sandbox).reclaim(soon())
    expect(await read("memory.reclaim")).toBe("")
  })

  it("may lack memory.reclaim, where the kernel is older", async () => {
    const large = { ...FILES, "memory.current": `${2 * KEPT_BYTES}\n` }
    const { cgroups, sandbox, read } = await playV2(large)
    await cgroups.open(sandbox).reclaim(soon())
    await expect(read("memory.reclaim")).rejects.toMatchObject({ code: "ENOENT" })
  })

  it("are no longer written when the reclaim is cancelled", async () => {
    const { cgroups, sandbox, directory } = await playV2({
      ...FILES,
      "memory.current": `${2 * KEPT_BYTES}\n`,
    })
    // A writer to a pipe that nobody reads waits, as it does for a kernel at work.
    execFileSync("mkfifo", [join(directory, "memory.reclaim")])
    const stop = new AbortController()
    const reclaimed = cgroups.open(sandbox).reclaim(stop.signal)
    const writers = () => processesWith(join(directory, "memory.reclaim"))
    await expect.poll(writers).not.toEqual([])
    stop.abort(new Error("called off"))
    await expect(reclaimed).rejects.toThrow("called off")
    expect(writers()).toEqual([])
  })
})

/** The ids of the processes whose command line has this argument. */
const processesWith = (argument: string): string[] =>
  readdirSync("/proc").filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(argument)
    } catch {
      return false
    }
  })
