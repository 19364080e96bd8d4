import { access, mkdir, readFile, rmdir, writeFile } from "node:fs/promises"
import { dirname, join } from "node:path"
import { setTimeout as delay } from "node:timers/promises"
import { newId } from "@berth/protocol/ids"
import { requires } from "@berth/testing/requires"
import { sized } from "@berth/testing/sampled"
import { describe, expect, it } from "vitest"
import type { Cgroup } from "./cgroups.ts"
import { cpuSecondsOf } from "./testing/cpu-seconds.ts"
import { fileWith, HOST, leftovers, onlyV2, openHere, SMALL, soon } from "./testing/host.ts"
import { runOutside, shellInside } from "./testing/process.ts"

const MIB = 1024 * 1024
const SPIN = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"

/** Cgroups inside the sandbox's own, one in each hierarchy, as a sandbox may make them. */
const makeNested = async (cgroup: Cgroup, path: string): Promise<Cgroup> => {
  const nested = cgroup.joinFiles.map((file) => join(dirname(file), path))
  for (const directory of nested) await mkdir(directory, { recursive: true })
  return { ...cgroup, joinFiles: nested.map((directory) => join(directory, "cgroup.procs")) }
}

/** Reads a file of the cgroup in the hierarchy that has it. */
const readInside = async (cgroup: Cgroup, file: string, pattern = /./): Promise<string> => {
  const paths = cgroup.joinFiles.map((joinFile) => join(dirname(joinFile), file))
  const texts = await Promise.all(paths.map((path) => readFile(path, "utf8").catch(() => "")))
  return texts.find((text) => pattern.test(text))?.trim() ?? ""
}

requires("root").describe("the cgroups of this host", () => {
  it("hold every limit, pause and kill, and nothing is left of the trial", async () => {
    const { cgroups, group } = await openHere()
    expect(cgroups.mode).toBe(HOST.mode)
    const held = { held: true }
    expect(cgroups.held).toEqual({
      memoryBytes: held,
      cpus: held,
      pids: held,
      pause: held,
      kill: held,
    })
    expect(await leftovers(group)).toEqual([])
  })

  it("kill a process that takes more memory than the limit, and count it", async () => {
    const { cgroups } = await openHere()
    const cgroup = await cgroups.create(newId.sandbox(), SMALL)
    const bomb = await shellInside(cgroup, "exec tail /dev/zero")
    expect(await bomb.ended).toEqual({ code: null, signal: "SIGKILL" })
    expect(await cgroup.oomKills()).toBe(1)
  })

  it("count a process that was killed for its memory in a nested cgroup", async () => {
    const { cgroups } = await openHere()
    const cgroup = await cgroups.create(newId.sandbox(), SMALL)
    await (await shellInside(await makeNested(cgroup, "inner"), "exec tail /dev/zero")).ended
    expect(await cgroup.oomKills()).toBe(1)
  })

  it("count no process that another process killed", async () => {
    const { cgroups } = await openHere()
    const cgroup = await cgroups.create(newId.sandbox(), SMALL)
    const { child, ended } = await shellInside(cgroup, "exec sleep 1000")
    child.kill("SIGKILL")
    await ended
    expect(await cgroup.oomKills()).toBe(0)
  })

  it("refuse a process beyond the limit", async () => {
    const { cgroups } = await openHere()
    const cgroup = await cgroups.create(newId.sandbox(), SMALL)
    const script = "i=0; while [ $i -lt 64 ]; do sleep 1000 & i=$((i+1)); done; wait"
    const forks = await shellInside(cgroup, script)
    // The shell ends with the first fork that fails, and leaves what it has started.
    expect((await forks.ended).code).not.toBe(0)
    expect(await cgroup.pids()).toHaveLength(SMALL.pids - 1)
  })

  it("throttle a process that wants more CPU time than the limit", async () => {
    const { cgroups } = await openHere()
    const cgroup = await cgroups.create(newId.sandbox(), { ...SMALL, cpus: 0.1 })
    await (await shellInside(cgroup, SPIN)).ended
    const text = await readInside(cgroup, "cpu.stat", /^nr_periods/m)
    const count = (field: string) => Number(new RegExp(`^${field} (\\d+)$`, "m").exec(text)?.[1])
    expect(count("nr_throttled")).toBeGreaterThan(0)
    const cpuSeconds = await cpuSecondsOf(cgroup)
    expect(cpuSeconds).toBeGreaterThan(0)
    // Each period of 100 ms allows 10 ms, and the scheduler may overrun that by one tick of its clock.
    expect(cpuSeconds).toBeLessThan((count("nr_periods") + 2) * 0.02)
  })

  it("take higher and lower limits while a process runs", async () => {
    const { cgroups } = await openHere()
    const cgroup = await cgroups.create(newId.sandbox(), SMALL)
    await shellInside(cgroup, "exec sleep 1000")
    for (const [memoryBytes, pids] of [
      [96 * MIB, 100],
      [40 * MIB, 16],
    ] as const) {
      await cgroup.setLimits({ ...SMALL, memoryBytes, pids })
      expect(await readInside(cgroup, "pids.max")).toBe(`${pids}`)
      const memoryFile = HOST.v1.has("memory") ? "memory.limit_in_bytes" : "memory.max"
      expect(await readInside(cgroup, memoryFile)).toBe(`${memoryBytes}`)
    }
  })

  it("kill a fork bomb", async () => {
    const { cgroups } = await openHere()
    const cgroup = await cgroups.create(newId.sandbox(), { ...SMALL, cpus: 2, pids: 200 })
    await shellInside(cgroup, "b() { b | b & b; }; b 2>/dev/null")
    await expect
      .poll(async () => Number(await readInside(cgroup, "pids.current")))
      .toBeGreaterThan(100)
    await cgroup.kill(soon())
    expect(await cgroup.pids()).toEqual([])
  })

  it("undo a creation whose limit the kernel refuses, and report the kernel's words", async () => {
    const { cgroups, group } = await openHere()
    const created = cgroups.create(newId.sandbox(), { ...SMALL, cpus: 0.000_1 })
    await expect(created).rejects.toMatchObject({
      code: "backend.limit_refused",
      details: {
        errno: "EINVAL",
        path: expect.stringContaining("/cpu."),
        engineSaid: expect.stringContaining("invalid argument"),
      },
    })
    expect(await leftovers(group)).toEqual([])
  })

  it("keep a sandbox's cgroup when a second creation of it fails", async () => {
    const { cgroups } = await openHere()
    const sandbox = newId.sandbox()
    const cgroup = await cgroups.create(sandbox, SMALL)
    await expect(cgroups.create(sandbox, { ...SMALL, cpus: 0.000_1 })).rejects.toThrow()
    for (const file of cgroup.joinFiles) expect(await readFile(file, "utf8")).toBe("")
  })
})

/** How often a cgroup is frozen while its programs replace themselves. */
const FREEZES = sized("freezes of programs that replace themselves", { few: 15, all: 60 })

const VIEWS = [
  ["all hierarchies of this host", async () => ({})],
  ["the v2 hierarchy alone", async () => ({ procMounts: await onlyV2() })],
] as const

describe.each(HOST.v2 === undefined ? VIEWS.slice(0, 1) : VIEWS)("with %s", (_, view) => {
  requires("root").describe("a sandbox's cgroup", () => {
    it("stops its processes when frozen, and lets them continue when thawed", async () => {
      const { cgroups } = await openHere(await view())
      const cgroup = await cgroups.create(newId.sandbox(), { ...SMALL, cpus: 1 })
      await shellInside(cgroup, "while :; do :; done")
      expect(await cgroup.isFrozen()).toBe(false)
      await cgroup.freeze(soon())
      expect(await cgroup.isFrozen()).toBe(true)
      const used = await cpuSecondsOf(cgroup)
      // The host makes progress meanwhile; the process inside uses no CPU time at all.
      await runOutside(SPIN)
      expect(await cpuSecondsOf(cgroup)).toBe(used)
      await cgroup.thaw(soon())
      expect(await cgroup.isFrozen()).toBe(false)
      await expect.poll(() => cpuSecondsOf(cgroup)).toBeGreaterThan(used)
    })

    it("is not left frozen when the freeze is cancelled", async () => {
      const { cgroups } = await openHere(await view())
      const cgroup = await cgroups.create(newId.sandbox(), SMALL)
      await shellInside(cgroup, "exec sleep 1000")
      const reason = new Error("called off")
      await expect(cgroup.freeze(AbortSignal.abort(reason))).rejects.toBe(reason)
      expect(await cgroup.isFrozen()).toBe(false)
    })

    it("can be frozen and thawed twice", async () => {
      const { cgroups } = await openHere(await view())
      const cgroup = await cgroups.create(newId.sandbox(), SMALL)
      await shellInside(cgroup, "exec sleep 1000")
      for (const round of [1, 2]) {
        await cgroup.freeze(soon())
        if (round === 2) await cgroup.freeze(soon())
        await cgroup.thaw(soon())
        if (round === 2) await cgroup.thaw(soon())
      }
      expect(await cgroup.isFrozen()).toBe(false)
    })

    it("freezes while a program of many threads replaces itself", async () => {
      const { cgroups } = await openHere(await view())
      const limits = { memoryBytes: 512 * MIB, cpus: 2, pids: 100 }
      const cgroup = await cgroups.create(newId.sandbox(), limits)
      const node = process.execPath
      const again = await fileWith(`process.execve("${node}", ["${node}", __filename], {})`)
      for (const _ of [1, 2, 3]) await shellInside(cgroup, `exec ${node} ${again} 2> /dev/null`)
      for (let round = 0; round < FREEZES; round++) {
        await cgroup.freeze(soon())
        await cgroup.thaw(soon())
        // Another moment of a program's life in each round.
        await delay((round * 7) % 50)
      }
    })

    it("is killed while frozen, with the processes of a nested cgroup that is frozen itself", async () => {
      const { cgroups, group } = await openHere(await view())
      const cgroup = await cgroups.create(newId.sandbox(), SMALL)
      const outer = await shellInside(cgroup, "exec sleep 1000")
      const nested = await makeNested(cgroup, "made-inside/deeper")
      const inner = await shellInside(nested, "exec sleep 1000")
      expect((await cgroup.pids()).sort()).toEqual([outer.pid, inner.pid].sort())
      for (const file of nested.joinFiles) {
        await writeFile(join(dirname(file), "freezer.state"), "FROZEN", { flag: "r+" }).catch(
          () => {},
        )
        await writeFile(join(dirname(file), "cgroup.freeze"), "1", { flag: "r+" }).catch(() => {})
      }
      await cgroup.freeze(soon())
      await cgroup.kill(soon())
      expect((await outer.ended).signal).toBe("SIGKILL")
      expect((await inner.ended).signal).toBe("SIGKILL")
      await cgroup.remove(soon())
      expect(await leftovers(group)).toEqual([])
    })

    it("is removed when the last process has left, and not before", async () => {
      const { cgroups, group } = await openHere(await view())
      const cgroup = await cgroups.create(newId.sandbox(), SMALL)
      const { child, ended } = await shellInside(cgroup, "exec sleep 1000")
      await expect(cgroup.remove(AbortSignal.timeout(100))).rejects.toThrow(/timeout/)
      for (const file of cgroup.joinFiles) expect(await readFile(file, "utf8")).not.toBe("")
      const removed = cgroup.remove(soon())
      child.kill("SIGTERM")
      expect((await ended).signal).toBe("SIGTERM")
      await removed
      expect(await cgroup.exists()).toBe(false)
      expect(await leftovers(group)).toEqual([])
    })

    it("stays in every hierarchy, and can be killed, while a process is in one of them", async () => {
      const { cgroups } = await openHere(await view())
      const cgroup = await cgroups.create(newId.sandbox(), SMALL)
      for (const joinFile of cgroup.joinFiles) {
        const { pid, ended } = await shellInside(
          { ...cgroup, joinFiles: [joinFile] },
          "exec sleep 1000",
        )
        expect(await cgroup.pids()).toEqual([pid])
        await expect(cgroup.remove(AbortSignal.timeout(20))).rejects.toThrow(/timeout/)
        for (const file of cgroup.joinFiles) await expect(access(file)).resolves.toBeUndefined()
        await cgroup.kill(soon())
        expect((await ended).signal).toBe("SIGKILL")
      }
    })

    it("can be created again around a process, and killed and removed twice", async () => {
      const { cgroups, group } = await openHere(await view())
      const sandbox = newId.sandbox()
      const cgroup = await cgroups.create(sandbox, SMALL)
      const { pid } = await shellInside(cgroup, "exec sleep 1000")
      const again = await cgroups.create(sandbox, { ...SMALL, pids: 16 })
      expect(await again.pids()).toEqual([pid])
      for (const _round of [1, 2]) await again.kill(soon())
      for (const _round of [1, 2]) await again.remove(soon())
      expect(await leftovers(group)).toEqual([])
    })

    it("is one cgroup for two callers that create it at once", async () => {
      const { cgroups } = await openHere(await view())
      const sandbox = newId.sandbox()
      await Promise.all([cgroups.create(sandbox, SMALL), cgroups.create(sandbox, SMALL)])
      expect(await cgroups.list()).toEqual([sandbox])
    })

    it("is listed, killed and removed where only a part of it exists", async () => {
      const { cgroups, group } = await openHere(await view())
      const sandbox = newId.sandbox()
      const cgroup = cgroups.open(sandbox)
      await mkdir(dirname(cgroup.joinFiles[0] ?? ""), { recursive: true })
      expect(await cgroups.list()).toEqual([sandbox])
      expect(await cgroup.exists()).toBe(true)
      expect(await cgroup.pids()).toEqual([])
      await cgroup.kill(soon())
      await cgroup.remove(soon())
      expect(await leftovers(group)).toEqual([])
    })

    it("is listed without those of another installation, and without strange directories", async () => {
      const { cgroups, group } = await openHere(await view())
      const other = await openHere(await view())
      expect(await cgroups.list()).toEqual([])
      const sandboxes = [newId.sandbox(), newId.sandbox()]
      for (const sandbox of sandboxes) await cgroups.create(sandbox, SMALL)
      await other.cgroups.create(newId.sandbox(), SMALL)
      const [groupDirectory = ""] = await leftovers(group).then((all) => all.slice(-1))
      const stranger = join(groupDirectory, "no-sandbox")
      await mkdir(stranger)
      expect(await cgroups.list()).toEqual(sandboxes.sort())
      await rmdir(stranger)
    })

    it("keeps its group while others are created and removed, until the last is gone", async () => {
      const { cgroups, group } = await openHere(await view())
      const rounds = Array.from({ length: 8 }, async () => {
        for (let round = 0; round < 10; round++) {
          const cgroup = await cgroups.create(newId.sandbox(), SMALL)
          await cgroup.remove(soon())
        }
      })
      await Promise.all(rounds)
      expect(await leftovers(group)).toEqual([])
    })

    it("has a path of group and sandbox in its hierarchies", async () => {
      const { cgroups, group } = await openHere(await view())
      const sandbox = newId.sandbox()
      expect(cgroups.open(sandbox).path).toBe(`/${group}/${sandbox}`)
    })
  })
})
