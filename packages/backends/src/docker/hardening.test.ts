import { statSync } from "node:fs"
import { TOOLBOX_TARGET } from "@berth/protocol/inside"
import { HOST_IMAGE, importHostImage, importSystemImage } from "@berth/testing/docker/image"
import { requires } from "@berth/testing/requires"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import {
  CONDITIONAL,
  GETPID,
  NEW_CALLS,
  probing,
  REFUSED_PROBES,
  readProbes,
  X32_BIT,
} from "../testing/probes.ts"
import { type Sandboxes, sandboxesOf } from "../testing/sandboxes.ts"
import { askEngine, type DockerHarness, openHarness } from "./testing/harness.ts"
import { specFor } from "./testing/spec.ts"

/** CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID and SETUID, by the kernel's numbers. */
const CAPABILITIES = [0, 1, 3, 4, 5, 6, 7].reduce((mask, bit) => mask | (1 << bit), 0)

const TOOLBOX = { kind: "directory" as const, target: TOOLBOX_TARGET, readOnly: true }

const MIB = 1024 * 1024

requires("docker").describe("the fences around a docker sandbox", () => {
  let harness: DockerHarness
  let sandboxes: Sandboxes
  beforeAll(async () => {
    harness = await openHarness()
    sandboxes = sandboxesOf(harness)
  }, 120_000)
  afterAll(() => harness?.close(), 60_000)

  const run = async (script: string, config = {}) =>
    (await sandboxes.run(["/bin/sh", "-c", script], config)).output

  it("are few capabilities, no new privileges and a filter of system calls", async () => {
    const status = await run("cat /proc/self/status")
    for (const set of ["CapPrm", "CapEff", "CapBnd"]) {
      const mask = new RegExp(`^${set}:\\s*([0-9a-f]+)$`, "m").exec(status)?.[1] ?? "none"
      expect(Number.parseInt(mask, 16)).toBe(CAPABILITIES)
    }
    expect(status).toMatch(/^NoNewPrivs:\s*1$/m)
    expect(status).toMatch(/^Seccomp:\s*2$/m)
  })

  it.skipIf(process.arch !== "x64")("refuse the system calls of the list", async () => {
    const said = readProbes(await run(probing(REFUSED_PROBES)))
    expect(said.filter((line) => !line.endsWith("EPERM") && !NEW_CALLS.test(line))).toEqual([])
    expect(said).toHaveLength(REFUSED_PROBES.length)
  })

  it.skipIf(process.arch !== "x64")("judge system calls by their arguments", async () => {
    const said = readProbes(await run(probing(CONDITIONAL.map(([call]) => call))))
    // Older engines answer every unknown call with EPERM.
    const sameError = (line: string) =>
      /place memory|the page at zero/.test(line) ? line.replace("EPERM", "ENOSYS") : line
    expect(said.map(sameError)).toEqual(CONDITIONAL.map(([[name], answer]) => `${name} ${answer}`))
  })

  it.skipIf(process.arch !== "x64")("kill a process that makes a system call of x32", async () => {
    const script = `perl -e 'syscall(${X32_BIT + GETPID}); print "went on\\n"'; echo $?`
    const said = await run(script)
    // 128 + SIGSYS.
    expect(said).toContain("159\n")
    expect(said).not.toContain("went on")
  })

  it("are taken away where the configuration says so", async () => {
    const hardening = { capabilities: ["CHOWN"], noNewPrivileges: false, seccomp: "off" }
    const status = await run("cat /proc/self/status", { hardening })
    expect(status).toMatch(/^CapEff:\s*0*1$/m)
    expect(status).toMatch(/^NoNewPrivs:\s*0$/m)
    expect(status).toMatch(/^Seccomp:\s*0$/m)
  })

  it("hide the files that tell of the kernel's memory", async () => {
    const files = "/proc/kcore /proc/slabinfo /proc/vmallocinfo /proc/kpagecount /proc/kpageflags"
    const script = `for f in ${files}; do echo "$f $(head -c 64 $f 2>/dev/null | wc -c)"; done`
    const lines = (await run(script)).trim().split("\n")
    expect(lines.map((line) => line.split(" ")[1])).toEqual(lines.map(() => "0"))
  })

  it("give the sandbox device nodes of its own", async () => {
    const names = ["null", "zero", "full", "random", "urandom", "tty"]
    const inside = (await run(`cd /dev && stat -c '%d:%i' ${names.join(" ")}`)).trim().split("\n")
    const outside = names
      .map((name) => statSync(`/dev/${name}`))
      .map(({ dev, ino }) => `${dev}:${ino}`)
    expect(inside.filter((identity) => outside.includes(identity))).toEqual([])
    expect(inside).toHaveLength(names.length)
  })

  it("make /, /usr, /etc and /usr/bin of the image read-only", async () => {
    const script = "for d in / /usr /etc /usr/bin /home/.. ; do touch $d/new 2>&1 || true; done"
    const output = await run(script)
    expect(output.match(/Read-only file system/g)).toHaveLength(5)
  })

  describe("and the users of the image", () => {
    it("include the user that agents run as", async () => {
      const ask =
        "for (0, 1000) { print join(q(:), (getpwuid $_)[0, 3, 7, 8], scalar getgrgid $_), qq(\\n) }"
      expect(await run(`perl -e '${ask}'`)).toBe(
        "root:0:/root:/bin/sh:root\nagent:1000:/home/agent:/bin/bash:agent\n",
      )
    })

    it("cannot be changed from inside", async () => {
      expect(await run("echo x >> /etc/passwd; echo x >> /etc/group; true")).toMatch(
        /(Read-only file system.*){2}/s,
      )
    })
  })

  describe("and an image that agents cannot run in", () => {
    const create = (digest: string) => {
      const mounts = [{ ...TOOLBOX, source: import.meta.dirname }]
      const system = { kind: "image" as const, digest }
      return harness.backend.create(specFor(harness, { system, mounts }))
    }

    it("is refused because it lacks glibc", async () => {
      await importHostImage(harness.engine)
      const { body } = await askEngine(harness.engine, "GET", `/images/${HOST_IMAGE}/json`)
      await expect(create((body as { Id: string }).Id)).rejects.toMatchObject({
        code: "backend.image_unsuitable",
        details: { lacks: expect.stringContaining("glibc") },
      })
    })

    it("is refused because it lacks a library, and leaves no container", async () => {
      const image = await importSystemImage(harness.engine, { name: "berth-test/small:latest" })
      await expect(create(image)).rejects.toMatchObject({
        code: "backend.image_unsuitable",
        details: { lacks: "libstdc++.so.6" },
      })
      expect(await harness.census()).toMatchObject({ containers: 0, sandboxes: 0 })
    })
  })

  it("hold the limits of the configuration", async () => {
    const limits = { memoryBytes: 64 * MIB, cpus: 0.5, pids: 77, openFiles: 333, tmpBytes: 3 * MIB }
    const script = `
      cd /sys/fs/cgroup
      cat memory/memory.limit_in_bytes memory.max 2>/dev/null
      cat memory/memory.memsw.limit_in_bytes 2>/dev/null
      cat cpu/cpu.cfs_quota_us cpu.max 2>/dev/null
      cat pids/pids.max pids.max 2>/dev/null
      ulimit -n; ulimit -Hn; ulimit -c
      for d in /tmp /run /dev/shm; do echo $(stat -f -c '%T %b %S' $d); done`
    const [memory, ...rest] = (await run(script, { limits })).trim().split("\n")
    expect(memory).toBe(String(limits.memoryBytes))
    expect(rest.filter((line) => line !== memory && line !== "0")).toEqual([
      expect.stringMatching(/^50000( 100000)?$/),
      ...["77", "333", "333"],
      ...Array.from({ length: 3 }, () => "tmpfs 768 4096"),
    ])
  })

  it("bound queued signals and message queues, which count for sandbox and host together", async () => {
    const limits = await run("cat /proc/self/limits")
    expect(limits).toMatch(/^Max pending signals +1024 +1024 /m)
    expect(limits).toMatch(/^Max msgqueue size +409600 +409600 /m)
  })

  it("make an init the first process", async () => {
    expect(await run("cat /proc/1/comm")).toMatch(/init|tini/)
  })
})
