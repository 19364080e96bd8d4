import { rmSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { sayDuration } from "../say-duration.ts"
import { berth, makeDir, startServer } from "../testing/berth.ts"

describe("berth status", () => {
  it("shows the server of the data directory", async () => {
    const dataDir = makeDir()
    const server = await startServer(["--data-dir", dataDir])
    const { stdout, stderr, status } = await berth(["status", "--data-dir", dataDir])
    expect(stdout).toContain(`answers on ${server.url}`)
    expect(stdout).toContain(String(server.pid))
    expect(stdout).toContain(dataDir)
    expect({ stderr, status }).toEqual({ stderr: "", status: 0 })
    const json = await berth(["status", "--json"], { env: { BERTH_DATA_DIR: dataDir } })
    expect(JSON.parse(json.stdout)).toMatchObject({ url: server.url, pid: server.pid, dataDir })
  })

  it("says what to do when no server runs", async () => {
    const dataDir = join(makeDir(), "none")
    const { stdout, stderr, status } = await berth(["status", "--data-dir", dataDir])
    expect(stderr).toContain(`no server runs on ${dataDir}`)
    expect(stderr).toContain("hint: Start a server with `berth serve`")
    expect({ stdout, status }).toEqual({ stdout: "", status: 1 })
    const json = await berth(["status", "--json", "--data-dir", dataDir])
    expect(JSON.parse(json.stderr).error.code).toBe("server.not_running")
  })

  it("says that no server runs where a killed one left its note", async () => {
    const dataDir = makeDir()
    const server = await startServer(["--data-dir", dataDir])
    await server.stop("SIGKILL")
    const { stderr } = await berth(["status", "--json", "--data-dir", dataDir])
    expect(JSON.parse(stderr).error.code).toBe("server.not_running")
  })

  it("uses the configured token instead of the file's", async () => {
    const dataDir = makeDir()
    const env = { BERTH_TOKEN: "given-to-both-0123456789" }
    await startServer(["--data-dir", dataDir], { env })
    expect(await berth(["status", "--data-dir", dataDir], { env })).toMatchObject({ status: 0 })
    const without = await berth(["status", "--json", "--data-dir", dataDir])
    expect(without.status).toBe(1)
    expect(JSON.parse(without.stderr).error.code).toBe("auth.required")
  })

  it("says that the token is missing", async () => {
    const dataDir = makeDir()
    await startServer(["--data-dir", dataDir])
    rmSync(join(dataDir, "token"))
    const { stderr, status } = await berth(["status", "--data-dir", dataDir])
    expect(status).toBe(1)
    expect(stderr).toContain("this route needs the API token")
  })
})

describe("duration", () => {
  it.each([
    [0, "0 s"],
    [59_999, "59 s"],
    [60_000, "1 min 0 s"],
    [3_725_000, "1 h 2 min"],
    [90_000_000, "1 d 1 h"],
  ])("says %i ms as %s", (ms, said) => {
    expect(sayDuration(ms)).toBe(said)
  })
})
