import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { requires } from "@berth/testing/requires"
import { describe, expect, it, onTestFinished } from "vitest"
import { docker } from "./docker.ts"

const never = new AbortController().signal
const PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

const look = (dockerHost: string) =>
  docker.probe({ path: PATH, dataDir: tmpdir(), dockerHost }, never)

describe("the check of a Docker engine", () => {
  it.each([
    ["nobody listens", "unix:///no/such.sock", "not reachable: connect ENOENT"],
    [
      "the address is of another kind",
      "ssh://me@host",
      "the address ssh://me@host is not understood",
    ],
  ])("finds it missing when %s", async (_, dockerHost, found) => {
    expect(await look(dockerHost)).toMatchObject({
      status: "missing",
      found: expect.stringContaining(found),
      fix: expect.any(String),
    })
  })
})

requires("docker").describe("the check of a real Docker engine", () => {
  it("finds its version, and finds it gone after it has stopped", async () => {
    const directory = await mkdtemp(join(tmpdir(), "berth-engine-"))
    const address = `unix://${directory}/docker.sock`
    const engine = spawn(
      "dockerd",
      [
        ...["--host", address, "--pidfile", join(directory, "pid")],
        ...["--data-root", join(directory, "data"), "--exec-root", join(directory, "exec")],
        // It runs nothing, so it needs no network and leaves the host's rules alone.
        ...["--bridge=none", "--iptables=false", "--ip6tables=false", "--log-level=error"],
      ],
      { stdio: "ignore", env: { PATH } },
    )
    const ended = once(engine, "exit")
    onTestFinished(async () => {
      engine.kill("SIGTERM")
      await ended
      await rm(directory, { recursive: true, force: true })
    })
    await expect
      .poll(() => look(address), { timeout: 30_000 })
      .toMatchObject({ status: "ok", found: expect.stringMatching(/^engine \d+\.\d+.*, API \d/) })
    engine.kill("SIGTERM")
    await ended
    expect(await look(address)).toMatchObject({ status: "missing" })
  }, 60_000)
})
