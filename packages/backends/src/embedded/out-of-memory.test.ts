import { spawn } from "node:child_process"
import { randomBytes } from "node:crypto"
import { once } from "node:events"
import { existsSync } from "node:fs"
import { mkdir, readdir, readFile, rmdir, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { requires } from "@berth/testing/requires"
import { afterAll, beforeAll, expect, it, vi } from "vitest"
import { sandboxesOf } from "../testing/sandboxes.ts"
import { openHarness } from "./testing/harness.ts"

const MIB = 1024 * 1024
const HOST_BYTES = 200 * MIB
/** By far the largest part: without a score, the kernel would kill the server first. */
const SERVER_MIB = 140
const POLL = { timeout: 30_000, interval: 50 }

/** A cgroup that stands for the whole host: the kernel picks among its members as it would among all processes. */
const V1 = "/sys/fs/cgroup/memory"
const playHost = async () => {
  const isV1 = existsSync(V1)
  const path = join(isV1 ? V1 : "/sys/fs/cgroup", `berth-test-${randomBytes(6).toString("hex")}`)
  await mkdir(path)
  const limit = isV1 ? "memory.limit_in_bytes" : "memory.max"
  await writeFile(join(path, limit), `${HOST_BYTES}`)
  return {
    path,
    join: (pid: number) => writeFile(join(path, "cgroup.procs"), `${pid}`),
    remove: () => vi.waitFor(() => rmdir(path), POLL),
  }
}

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces").describe(
  "a host that is out of memory",
  () => {
    let harness: Awaited<ReturnType<typeof openHarness>>
    let host: Awaited<ReturnType<typeof playHost>>
    beforeAll(async () => {
      harness = await openHarness()
      host = await playHost()
    })
    afterAll(async () => {
      await harness?.close()
      await host?.remove()
    })

    it("kills a process of a sandbox, and spares a server that has more memory", async () => {
      const fill = `$| = 1; my @all; push @all, "x" x (1 << 20) for 1 .. ${SERVER_MIB}; print "full\\n"; <STDIN>;`
      const server = spawn("sh", [
        "-c",
        'echo $$ > "$0/cgroup.procs" && exec perl -e "$1"',
        host.path,
        fill,
      ])
      const ended = once(server, "exit")
      await once(createInterface({ input: server.stdout }), "line")

      const sandboxes = sandboxesOf(harness)
      const mark = randomBytes(8).toString("hex")
      const hog = `$0 = "${mark}"; $SIG{USR1} = sub { $go = 1 }; $| = 1; print "waits\\n";
        sleep 1 until $go; push @all, "x" x (1 << 20) while 1;`
      const sandbox = await sandboxes.boot(["perl", "-e", hog])
      await sandboxes.said(sandbox, /waits/)
      const pid = await processNamed(mark)
      await host.join(pid)
      process.kill(pid, "SIGUSR1")
      expect(await sandboxes.ended(sandbox)).toMatchObject({ code: 137 })
      expect(server.exitCode).toBeNull()
      expect(server.signalCode).toBeNull()
      server.stdin.end()
      expect(await ended).toEqual([0, null])
      await harness.backend.remove(sandbox)
    })
  },
)

const processNamed = async (name: string): Promise<number> => {
  for (const pid of (await readdir("/proc")).filter((entry) => /^\d+$/.test(entry))) {
    const command = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "")
    if (command.replaceAll("\0", "").trim() === name) return Number(pid)
  }
  throw new Error(`no process is called ${name}`)
}
