import { mkdir, readFile } from "node:fs/promises"
import { dirname, join } from "node:path"
import { newId } from "@berth/protocol/ids"
import { describe, expect, it } from "vitest"
import { hostMounts, leftovers, openHere, SMALL, soon, v1Here } from "./testing/host.ts"
import { runInside, shellInside } from "./testing/process.ts"

const MIB = 1024 * 1024

describe.runIf(v1Here)("cgroups on a host with v1 controllers", () => {
  it("holds every limit, pauses and kills, and leaves nothing when it is opened", async () => {
    const { cgroups, group } = await openHere()
    expect(cgroups.mode).toBe((await hostMounts()).mode)
    expect(cgroups.held).toEqual({
      memoryBytes: { held: true },
      cpus: { held: true },
      pids: { held: true },
      pause: { held: true },
      kill: { held: true },
    })
    expect(await leftovers(group)).toEqual([])
  })

  it("sets the limits before anything runs, swap within the memory limit", async () => {
    const { cgroups, group } = await openHere()
    const sandbox = newId.sandbox()
    const cgroup = await cgroups.create(sandbox, SMALL)
    const { v1 } = await hostMounts()
    const value = async (controller: string, file: string) =>
      (await readFile(join(v1.get(controller) ?? "", group, sandbox, file), "utf8")).trim()
    expect(await value("memory", "memory.limit_in_bytes")).toBe(`${SMALL.memoryBytes}`)
    expect(await value("memory", "memory.memsw.limit_in_bytes")).toBe(`${SMALL.memoryBytes}`)
    expect(await value("cpu", "cpu.cfs_quota_us")).toBe("20000")
    expect(await value("cpu", "cpu.cfs_period_us")).toBe("100000")
    expect(await value("pids", "pids.max")).toBe(`${SMALL.pids}`)
    expect(cgroup.path).toBe(`/${group}/${sandbox}`)
    expect(await cgroup.pids()).toEqual([])
  })

  it("raises and lowers the limits of a running sandbox", async () => {
    const { cgroups, group } = await openHere()
    const sandbox = newId.sandbox()
    const cgroup = await cgroups.create(sandbox, SMALL)
    const memory = join((await hostMounts()).v1.get("memory") ?? "", group, sandbox)
    for (const memoryBytes of [96 * MIB, 40 * MIB]) {
      await cgroup.setLimits({ ...SMALL, memoryBytes })
      for (const file of ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"]) {
        expect((await readFile(join(memory, file), "utf8")).trim()).toBe(`${memoryBytes}`)
      }
    }
  })

  it("[R1.14] has a process killed that takes more memory than the limit, and counts it", async () => {
    const { cgroups } = await openHere()
    const cgroup = await cgroups.create(newId.sandbox(), SMALL)
    const bomb = await shellInside(cgroup, "exec tail /dev/zero")
    expect(await bomb.ended).toEqual({ code: null, signal: "SIGKILL" })
    expect(await cgroup.oomKills()).toBe(1)
  })

  it("[R1.14] refuses a process beyond the limit", async () => {
    const { cgroups } = await openHere()
    const cgroup = await cgroups.create(newId.sandbox(), SMALL)
    const script = "i=0; while [ $i -lt 64 ]; do sleep 1000 & i=$((i+1)); done; wait"
    const forks = await shellInside(cgroup, script)
    // The shell ends with the first fork that fails, and leaves what it has started.
    expect((await forks.ended).code).not.toBe(0)
    expect(await cgroup.pids()).toHaveLength(SMALL.pids - 1)
    expect((await cgroup.stats()).pids).toBe(SMALL.pids - 1)
  })

  it("[R1.14] throttles a process that wants more CPU time than the limit", async () => {
    const { cgroups, group } = await openHere()
    const sandbox = newId.sandbox()
    const cgroup = await cgroups.create(sandbox, { ...SMALL, cpus: 0.1 })
    const spin = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"
    const { ended } = await shellInside(cgroup, spin)
    await ended
    const text = await readFile(
      join((await hostMounts()).v1.get("cpu") ?? "", group, sandbox, "cpu.stat"),
      "utf8",
    )
    const periods = Number(/^nr_periods (\d+)$/m.exec(text)?.[1])
    expect(Number(/^nr_throttled (\d+)$/m.exec(text)?.[1])).toBeGreaterThan(0)
    const { cpuSeconds = 0 } = await cgroup.stats()
    expect(cpuSeconds).toBeGreaterThan(0)
    // A period is 100 ms; each allows 10 ms, and a running slice may overrun by a few milliseconds.
    expect(cpuSeconds).toBeLessThan((periods + 2) * 0.02)
  })

  it("counts memory, CPU time and processes of what runs inside", async () => {
    const { cgroups } = await openHere()
    const cgroup = await cgroups.create(newId.sandbox(), SMALL)
    await shellInside(cgroup, "sleep 1000 & wait")
    await expect.poll(() => cgroup.pids()).toHaveLength(2)
    const stats = await cgroup.stats()
    expect(stats).toEqual({
      memoryBytes: expect.any(Number),
      cpuSeconds: expect.any(Number),
      pids: 2,
    })
    expect(stats.memoryBytes).toBeGreaterThan(0)
    expect(stats.memoryBytes).toBeLessThan(SMALL.memoryBytes)
  })

  it("stops what runs inside when frozen, and lets it go on when thawed", async () => {
    const { cgroups } = await openHere()
    const cgroup = await cgroups.create(newId.sandbox(), { ...SMALL, cpus: 1 })
    const { nextLine } = await shellInside(cgroup, "while :; do echo tick; sleep 0.001; done")
    expect(await nextLine()).toBe("tick")
    await cgroup.freeze(soon())
    expect(await cgroup.isFrozen()).toBe(true)
    const used = (await cgroup.stats()).cpuSeconds
    // Other processes of the host make progress meanwhile; those inside use no CPU time at all.
    await runToEnd(["/bin/sh", "-c", "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done"])
    expect((await cgroup.stats()).cpuSeconds).toBe(used)
    await cgroup.thaw(soon())
    expect(await cgroup.isFrozen()).toBe(false)
    await expect.poll(async () => (await cgroup.stats()).cpuSeconds).toBeGreaterThan(used ?? 0)
  })

  it("kills a fork bomb, whatever it does", async () => {
    const { cgroups } = await openHere()
    const cgroup = await cgroups.create(newId.sandbox(), { ...SMALL, cpus: 2, pids: 200 })
    await shellInside(cgroup, "b() { b | b & b; }; b 2>/dev/null")
    await expect.poll(async () => (await cgroup.stats()).pids ?? 0).toBeGreaterThan(100)
    await cgroup.kill(soon())
    expect(await cgroup.pids()).toEqual([])
    await cgroup.remove(soon())
  })

  it("kills what is frozen, in nested cgroups too, and removes those", async () => {
    const { cgroups, group } = await openHere()
    const cgroup = await cgroups.create(newId.sandbox(), SMALL)
    const nested = cgroup.joinFiles.map((file) => join(dirname(file), "made-inside"))
    for (const directory of nested) await mkdir(join(directory, "deeper"), { recursive: true })
    const joinFiles = nested.map((directory) => join(directory, "deeper", "cgroup.procs"))
    const { pid, ended } = await shellInside({ ...cgroup, joinFiles }, "exec sleep 1000")
    expect(await cgroup.pids()).toEqual([pid])
    await cgroup.freeze(soon())
    await cgroup.kill(soon())
    expect((await ended).signal).toBe("SIGKILL")
    await cgroup.remove(soon())
    expect(await leftovers(group)).toEqual([])
  })

  it("counts a process killed for its memory in a nested cgroup", async () => {
    const { cgroups } = await openHere()
    const cgroup = await cgroups.create(newId.sandbox(), SMALL)
    const nested = cgroup.joinFiles.map((file) => join(dirname(file), "made-inside"))
    for (const directory of nested) await mkdir(directory)
    const joinFiles = nested.map((directory) => join(directory, "cgroup.procs"))
    await (await shellInside({ ...cgroup, joinFiles }, "exec tail /dev/zero")).ended
    expect(await cgroup.oomKills()).toBe(1)
  })

  it("waits with the removal until the last process has left, and kills none", async () => {
    const { cgroups, group } = await openHere()
    const cgroup = await cgroups.create(newId.sandbox(), SMALL)
    const { child, ended } = await shellInside(cgroup, "exec sleep 1000")
    await expect(cgroup.remove(AbortSignal.timeout(100))).rejects.toThrow(/timeout/)
    expect(await cgroup.exists()).toBe(true)
    expect(child.exitCode).toBe(null)
    const removed = cgroup.remove(soon())
    child.kill("SIGTERM")
    expect((await ended).signal).toBe("SIGTERM")
    await removed
    expect(await cgroup.exists()).toBe(false)
    expect(await leftovers(group)).toEqual([])
  })

  it("makes the same cgroup again without harm, and removes it twice", async () => {
    const { cgroups, group } = await openHere()
    const sandbox = newId.sandbox()
    const cgroup = await cgroups.create(sandbox, SMALL)
    const { pid } = await shellInside(cgroup, "exec sleep 1000")
    const again = await cgroups.create(sandbox, { ...SMALL, pids: 16 })
    expect(await again.pids()).toEqual([pid])
    await again.kill(soon())
    await again.remove(soon())
    await again.remove(soon())
    await again.kill(soon())
    expect(await leftovers(group)).toEqual([])
  })

  it("makes one cgroup for two who make it at once", async () => {
    const { cgroups } = await openHere()
    const sandbox = newId.sandbox()
    await Promise.all([cgroups.create(sandbox, SMALL), cgroups.create(sandbox, SMALL)])
    expect(await cgroups.list()).toEqual([sandbox])
  })

  it("keeps its group through makes and removals at once, and drops it with the last", async () => {
    const { cgroups, group } = await openHere()
    const rounds = Array.from({ length: 8 }, async () => {
      for (let round = 0; round < 10; round++) {
        const cgroup = await cgroups.create(newId.sandbox(), SMALL)
        await cgroup.remove(soon())
      }
    })
    await Promise.all(rounds)
    expect(await leftovers(group)).toEqual([])
  })

  it("lists the sandboxes of its own installation, and nothing that is no sandbox", async () => {
    const { cgroups, group } = await openHere()
    const other = await openHere()
    const [first, second] = [newId.sandbox(), newId.sandbox()].sort()
    if (!first || !second) throw new Error("unreachable")
    await cgroups.create(first, SMALL)
    await cgroups.create(second, SMALL)
    await other.cgroups.create(newId.sandbox(), SMALL)
    const stranger = join((await hostMounts()).v1.get("pids") ?? "", group, "no-sandbox")
    await mkdir(stranger)
    try {
      expect(await cgroups.list()).toEqual([first, second])
    } finally {
      const { rmdir } = await import("node:fs/promises")
      await rmdir(stranger)
    }
  })

  it("finds what a make that was cut short has left", async () => {
    const { cgroups, group } = await openHere()
    const sandbox = newId.sandbox()
    await mkdir(join((await hostMounts()).v1.get("memory") ?? "", group, sandbox), {
      recursive: true,
    })
    expect(await cgroups.list()).toEqual([sandbox])
    await cgroups.open(sandbox).kill(soon())
    await cgroups.open(sandbox).remove(soon())
    expect(await leftovers(group)).toEqual([])
  })

  it("undoes a make whose limit the kernel refuses, with the kernel's words", async () => {
    const { cgroups, group } = await openHere()
    const made = cgroups.create(newId.sandbox(), { ...SMALL, cpus: 0.000_1 })
    await expect(made).rejects.toMatchObject({
      code: "backend.limit_refused",
      details: { errno: "EINVAL", path: expect.stringContaining("cpu.cfs_quota_us") },
    })
    expect(await leftovers(group)).toEqual([])
  })

  it("says so when the limits of a sandbox that is gone are set", async () => {
    const { cgroups } = await openHere()
    await expect(cgroups.open(newId.sandbox()).setLimits(SMALL)).rejects.toMatchObject({
      code: "backend.unknown_sandbox",
    })
  })
})

const runToEnd = async (command: readonly string[]): Promise<void> => {
  await runInside({ joinFiles: [] } as never, command).ended
}
