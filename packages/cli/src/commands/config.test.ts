import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { text } from "node:stream/consumers"
import { KEYS } from "@berth/local/config/schema"
import { BERTH } from "@berth/testing/berth"
import { describe, expect, it } from "vitest"
import { berth, exitOf, makeDir, startProcess } from "../testing/berth.ts"

const SECRET = "s3cret-value-0123456789"

describe("berth config", () => {
  it("shows every value with its origin, and no secret", async () => {
    const dir = makeDir()
    const file = join(dir, "c.yaml")
    writeFileSync(file, `logLevel: warn\ntoken: ${SECRET}\n`, { mode: 0o600 })
    const env = { BERTH_PORT: "1234", BERTH_CONFIG: file }
    const args = ["config", "--data-dir", "data"]

    const { stdout, stderr, status } = await berth(args, { env, cwd: dir })
    expect(stdout).toMatch(/^port +1234 +environment variable BERTH_PORT$/m)
    expect(stdout).toMatch(new RegExp(`^dataDir +${dir}/data +flag --data-dir$`, "m"))
    expect(stdout).toMatch(new RegExp(`^token +\\(hidden\\) +${file}$`, "m"))
    expect({ stderr, status }).toEqual({ stderr: "", status: 0 })

    const json = await berth([...args, "--json"], { env, cwd: dir })
    const { keys, ...rest } = JSON.parse(json.stdout)
    expect(rest).toEqual({ file: { path: file, present: true } })
    expect(Object.keys(keys)).toEqual(KEYS.map(({ name }) => name))
    expect(keys).toMatchObject({
      dataDir: { value: join(dir, "data"), origin: "flag --data-dir" },
      host: { value: "127.0.0.1", origin: "default" },
      port: { value: 1234, origin: "environment variable BERTH_PORT" },
      logLevel: { value: "warn", origin: file },
      engine: { value: null, origin: "default" },
      keysFile: { value: join(dir, "data/keys.env"), origin: "default" },
      token: { value: "(hidden)", origin: file },
    })
    expect(stdout + json.stdout).not.toContain(SECRET)
  })

  it("names every mistake of flags, environment and file, and exits with 2", async () => {
    const dir = makeDir()
    const file = join(dir, "c.yaml")
    writeFileSync(file, `tokn: ${SECRET}\n`)
    const env = { BERTH_TOKEN: `${SECRET} `, BERTH_LOGLEVEL: "info" }
    const args = ["config", "--config", file, "--host", "0.0.0.0"]

    const { stdout, stderr, status } = await berth(args, { env })
    expect({ stdout, status }).toEqual({ stdout: "", status: 2 })
    expect(stderr.split("\n")).toEqual([
      "berth: the configuration has 4 mistakes",
      expect.stringMatching(/^ {2}- host: "0\.0\.0\.0" .*flag --host.*loopback/),
      expect.stringMatching(/^ {2}- token: \(hidden\) .*environment variable BERTH_TOKEN/),
      expect.stringMatching(/^ {2}- BERTH_LOGLEVEL: unknown .*did you mean BERTH_LOG_LEVEL\?/),
      expect.stringContaining(`- tokn: unknown key (from ${file}); did you mean token?`),
      expect.stringContaining("hint: "),
      "",
    ])

    const json = await berth([...args, "--json"], { env })
    expect(json.status).toBe(2)
    const { error } = JSON.parse(json.stderr)
    expect(error.code).toBe("config.invalid")
    expect(error.details.problems).toHaveLength(4)
    expect(stderr + json.stderr).not.toContain(SECRET)
  })

  it("has a wrong value refused alike by status, doctor and serve", async () => {
    const env = { BERTH_PORT: "x" }
    for (const command of ["status", "doctor", "serve"]) {
      expect(await berth([command], { env })).toMatchObject({
        status: 2,
        stdout: "",
        stderr: expect.stringContaining("BERTH_PORT"),
      })
    }
  })

  it("survives a reader that has gone away", async () => {
    const script = 'exec 3>&1; { "$@"; echo "status $?" >&3; } | true'
    const shell = startProcess("sh", ["-c", script, "sh", ...BERTH, "config"])
    const [stdout, stderr] = await Promise.all([text(shell.stdout), text(shell.stderr)])
    expect(stdout).toBe("status 0\n")
    expect(stderr).toBe("")
  })

  it("fails when its output cannot be written", async () => {
    const shell = startProcess("sh", ["-c", '"$@" > /dev/full', "sh", ...BERTH, "config"])
    expect(await exitOf(shell)).toBe(1)
  })
})
