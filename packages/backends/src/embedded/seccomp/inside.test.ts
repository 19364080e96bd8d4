import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { REFUSED } from "../../seccomp/refused.ts"
import {
  CONDITIONAL,
  GETPID,
  NEW_CALLS,
  NUMBERS,
  type Probe,
  probing,
  REFUSED_PROBES,
  readProbes,
  SOCKET,
  X32_BIT,
} from "../../testing/probes.ts"
import { openTestbed, type RuntimeName, type Testbed } from "../system/testing/run-inside.ts"
import { readCompiledFilter } from "./compiled.ts"

let bed: Testbed
beforeAll(async () => {
  bed = await openTestbed()
})
afterAll(() => bed.remove())

describe.skipIf(process.arch !== "x64").each<RuntimeName>(["crun", "runc"])(
  "system calls inside, under %s",
  (runtime) => {
    const probe = async (probes: readonly Probe[], config?: Parameters<Testbed["inside"]>[2]) => {
      const { stdout, stderr } = await bed.inside(runtime, probing(probes), config)
      expect(stderr).toBe("")
      return readProbes(stdout)
    }

    it("refuses each call of the list", async () => {
      const said = await probe(REFUSED_PROBES)
      expect(said.filter((line) => !line.endsWith("EPERM") && !NEW_CALLS.test(line))).toEqual([])
      expect(said).toHaveLength(Object.keys(REFUSED).length)
    })

    it("judges calls by their arguments", async () => {
      const said = await probe(CONDITIONAL.map(([call]) => call))
      expect(said).toEqual(CONDITIONAL.map(([[name], answer]) => `${name} ${answer}`))
    })

    it("refuses four calls by the filter alone, and none of them without it", async () => {
      const probes: Probe[] = [
        ["unshare", NUMBERS.unshare ?? 0, 0],
        ["io_uring_setup", NUMBERS.io_uring_setup ?? 0, 0, 0],
        ["chroot", NUMBERS.chroot ?? 0, 0],
        ["crypto socket", SOCKET, 38, 5, 0],
      ]
      const said = await probe(probes, { hardening: { seccomp: "off" } })
      expect(said.filter((line) => line.endsWith("EPERM"))).toEqual([])
    })

    it("refuses calls also with the capabilities for them", async () => {
      const capabilities = ["SYS_ADMIN", "SYS_CHROOT", "SYS_PTRACE", "SYS_NICE", "SYS_BOOT"]
      const probes: Probe[] = ["mount", "unshare", "setns", "chroot", "bpf"].map((name) => [
        name,
        NUMBERS[name] ?? 0,
        0,
      ])
      expect(await probe(probes, { hardening: { capabilities } })).toEqual(
        probes.map(([name]) => `${name} EPERM`),
      )
    })

    it("kills a process that makes a system call of x32", async () => {
      const { status, stdout } = await bed.inside(
        runtime,
        `perl -e 'syscall(${X32_BIT + GETPID}); print "went on\\n"'; echo $?`,
      )
      expect(status).toBe(0)
      // 128 + SIGSYS.
      expect(stdout).toBe("159\n")
    })
  },
)

describe.skipIf(process.arch !== "x64")("the filter that crun has compiled", () => {
  it("is found beside a container, and judges calls without being compiled again", async () => {
    const compiled = join(bed.directory, "compiled")
    const first = await bed.bundle({ command: ["/bin/true"] })
    await bed.create("crun", first, compiled)
    const filter = await readCompiledFilter(compiled, "made")
    await bed.destroy("crun", compiled)
    expect(filter).toMatch(/^[A-Za-z0-9+/=]{1000,}$/)

    const call = ["/bin/sh", "-c", probing([...CONDITIONAL.map(([call]) => call)])]
    const second = await bed.bundle({ command: call }, { compiledFilter: filter })
    // The bundle has no profile, so that only the compiled filter can judge.
    const { seccomp, ...linux } = second.config.linux
    expect(seccomp).toBeDefined()
    const { stdout } = await bed.run("crun", { ...second, config: { ...second.config, linux } })
    expect(readProbes(stdout)).toEqual(CONDITIONAL.map(([[name], answer]) => `${name} ${answer}`))
  })

  it("is undefined where there is none", async () => {
    expect(await readCompiledFilter(bed.directory, "nothing")).toBeUndefined()
  })
})
