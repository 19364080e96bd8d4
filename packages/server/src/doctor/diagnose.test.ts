import { spawnSync } from "node:child_process"
import { once } from "node:events"
import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type DoctorCheck, type DoctorCheckName, DoctorReport } from "@berth/protocol/doctor"
import { requires } from "@berth/testing/requires"
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from "vitest"
import { diagnose } from "./diagnose.ts"
import type { Check } from "./tools/check.ts"

const never = new AbortController().signal
const PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

let directory: string
let dataDir: string
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "berth-doctor-test-"))
  dataDir = join(directory, "data")
  await mkdir(dataDir)
})
afterEach(() => rm(directory, { recursive: true, force: true }))

const find = (report: DoctorReport, name: DoctorCheckName): DoctorCheck => {
  const check = report.checks.find((candidate) => candidate.name === name)
  if (check === undefined) throw new Error(`the report has no ${name}`)
  return check
}

const namesWith = (report: DoctorReport, ...statuses: string[]) =>
  report.checks.filter(({ status }) => statuses.includes(status)).map(({ name }) => name)

requires(
  "root",
  "crunOrRunc",
  "conmon",
  "tini",
  "userNamespaces",
  "mappedIds",
  "networkNamespaces",
).describe("diagnose on a host with everything but an engine", () => {
  it("finds each part, and leaves nothing in the data directory", async () => {
    const dockerHost = `unix://${directory}/nobody.sock`
    const report = await diagnose({ path: PATH, dataDir, dockerHost }, never)
    expect(DoctorReport.parse(report)).toEqual(report)
    expect(namesWith(report, "degraded", "missing")).toEqual(["docker"])
    expect(report.status).toBe("degraded")
    expect(find(report, "cgroups").details.limits).toEqual(["memory", "pids", "cpu", "freezer"])
    expect(find(report, "overlay").details.directory).toBe(dataDir)
    expect(find(report, "mapped-ids").found).toBe(`work in ${dataDir}`)
    expect(await readdir(dataDir)).toEqual([])
  })

  it("reports what works for a user without rights", async () => {
    // Gives its rights up after the imports, so that the source may lie where only root reads.
    const script = `
        import { diagnose } from ${JSON.stringify(new URL("./diagnose.ts", import.meta.url).href)}
        process.setgroups([])
        process.setgid(65534)
        process.setuid(65534)
        const host = { path: ${JSON.stringify(PATH)}, dataDir: process.argv[1] }
        console.log(JSON.stringify(await diagnose(host, new AbortController().signal)))`
    const { stdout, stderr } = spawnSync(
      process.execPath,
      ["--conditions=source", "--input-type=module", "-e", script, directory],
      { encoding: "utf8", cwd: "/" },
    )
    expect(stderr).toBe("")
    const report = DoctorReport.parse(JSON.parse(stdout))
    expect(find(report, "cgroups")).toMatchObject({ status: "degraded", details: { limits: [] } })
    expect(find(report, "disk").found).toBe(`${directory} is not writable`)
    expect(find(report, "user-namespaces").found).toBe("root inside, uid 65534 outside")
    expect(find(report, "overlay")).toMatchObject({
      status: "ok",
      details: { directory: tmpdir() },
    })
    expect(find(report, "mapped-ids")).toMatchObject({
      status: "degraded",
      fix: "sudo berth doctor",
    })
    expect(find(report, "firewall").status).toBe("ok")
  })

  it("reports a place where the ids of files cannot be mapped, and leaves nothing there", async () => {
    const place = (name: string) => join(directory, name)
    for (const name of ["lower", "upper", "work", "merged"]) await mkdir(place(name))
    const options = `lowerdir=${place("lower")},upperdir=${place("upper")},workdir=${place("work")}`
    const merged = place("merged")
    spawnSync("mount", ["-t", "overlay", "overlay", "-o", options, merged])
    try {
      const report = await diagnose({ path: PATH, dataDir: merged }, never)
      expect(find(report, "mapped-ids")).toMatchObject({
        status: "degraded",
        found: expect.stringMatching(/^fail in .*\/merged, so that sandboxes share one range: /),
        fix: "use Linux 5.19 or newer, and a data directory on ext4, xfs or btrfs",
      })
      expect(await readdir(merged)).toEqual([])
    } finally {
      spawnSync("umount", ["--lazy", merged])
    }
  })
})

describe("diagnose", () => {
  it("reports every tool as missing on an empty path, each with a fix", async () => {
    const report = await diagnose({ path: join(directory, "empty"), dataDir }, never)
    expect(DoctorReport.parse(report)).toEqual(report)
    expect(report.status).toBe("missing")
    expect(namesWith(report, "missing")).toEqual([
      "git",
      "oci-runtime",
      "tini",
      "conmon",
      "user-namespaces",
      "overlay",
      "iproute2",
      "firewall",
    ])
    expect(find(report, "mapped-ids")).toMatchObject({ found: "no perl on the path" })
    expect(find(report, "node").status).toBe("ok")
  })

  it("tells a tool that does not run from one that is absent", async () => {
    const bin = join(directory, "bin")
    await mkdir(bin)
    await writeFile(join(bin, "tini"), "#!/bin/sh\necho 'no such library' >&2\nexit 127\n", {
      mode: 0o755,
    })
    await writeFile(join(bin, "conmon"), "#!/no/such/interpreter\n", { mode: 0o755 })
    const report = await diagnose({ path: bin, dataDir }, never)
    expect(find(report, "tini")).toMatchObject({
      status: "missing",
      found: `${bin}/tini does not run: no such library`,
    })
    expect(find(report, "conmon").found).toMatch(/does not run: .*ENOENT/)
  })

  it("reports an engine that accepts and never answers as degraded, beside the other checks", async () => {
    const socketPath = join(directory, "silent.sock")
    const silent = createServer((socket) => socket.on("error", () => {})).listen(socketPath)
    onTestFinished(() => {
      silent.close()
    })
    await once(silent, "listening")
    const report = await diagnose(
      { path: PATH, dataDir, dockerHost: `unix://${socketPath}` },
      never,
    )
    expect(find(report, "docker")).toMatchObject({
      status: "degraded",
      found: expect.stringContaining("no answer within"),
    })
    expect(find(report, "git").status).toBe("ok")
  })

  it("reports a lack as missing only for the backend that needs the part, else as degraded", async () => {
    const dockerHost = `unix://${directory}/nobody.sock`
    const host = { path: directory, dataDir, dockerHost }
    const statuses = async (backend: "embedded" | "docker") => {
      const report = await diagnose({ ...host, backend }, never)
      return ["conmon", "docker", "git"].map((name) => find(report, name as "git").status)
    }
    expect(await statuses("embedded")).toEqual(["missing", "degraded", "missing"])
    expect(await statuses("docker")).toEqual(["degraded", "missing", "missing"])
  })

  it("judges a data directory that does not exist by the place where it would be made", async () => {
    const absent = join(directory, "not", "yet")
    const report = await diagnose({ path: PATH, dataDir: absent }, never)
    expect(find(report, "disk").found).toContain(`${absent} (not made yet)`)
    expect(find(report, "disk").details.freeBytes).toBeGreaterThan(0)
    expect(await readdir(directory)).toEqual(["data"])
  })

  it("turns a check that throws into a finding with a fix, and keeps the others", async () => {
    const failing: Check = {
      name: "git",
      why: "For the test.",
      probe: () => Promise.reject(new Error("boom\nwith a stack")),
    }
    const fine: Check = {
      name: "tini",
      why: "For the test.",
      probe: async () => ({ status: "ok", found: "it", details: {} }),
    }
    const report = await diagnose({ path: PATH, dataDir }, never, [failing, fine])
    expect(report).toEqual({
      status: "degraded",
      checks: [
        {
          name: "git",
          why: "For the test.",
          status: "degraded",
          found: "could not be checked: boom",
          fix: expect.any(String),
          details: {},
        },
        { name: "tini", why: "For the test.", status: "ok", found: "it", details: {} },
      ],
    })
  })

  it("rejects when the caller cancels, with nothing left in the data directory", async () => {
    const stop = new AbortController()
    const diagnosing = diagnose({ path: PATH, dataDir }, stop.signal)
    stop.abort()
    await expect(diagnosing).rejects.toMatchObject({ code: "cancelled" })
    expect(await readdir(dataDir)).toEqual([])
  })
})
