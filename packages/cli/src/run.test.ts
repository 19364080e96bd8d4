import { describe, expect, it } from "vitest"
import { berth } from "./testing/berth.ts"

describe("berth", () => {
  it.each([["--help"], ["-h"], ["help"]])("lists its commands for %s", async (flag) => {
    const { stdout, stderr, status } = await berth([flag])
    expect(stdout).toMatch(/serve +run a server.*status .*doctor .*config /s)
    expect({ stderr, status }).toEqual({ stderr: "", status: 0 })
  })

  it("shows how it is used, as an error, when no command is named", async () => {
    const { stdout, stderr, status } = await berth([])
    expect(stderr).toContain("Usage: berth")
    expect({ stdout, status }).toEqual({ stdout: "", status: 2 })
  })

  it.each([["--version"], ["-V"]])("says its version for %s", async (flag) => {
    const { stdout, status } = await berth([flag])
    expect(stdout).toMatch(/^\d+\.\d+\.\d+\n$/)
    expect(status).toBe(0)
  })

  it.each([["serve"], ["run"], ["sessions"], ["log"], ["status"], ["doctor"], ["config"]])(
    "helps with %s",
    async (command) => {
      const { stdout, stderr, status } = await berth([command, "--help"])
      expect(stdout).toContain(`Usage: berth ${command}`)
      expect(stdout).toContain("--json")
      expect(stdout).toContain("BERTH_DATA_DIR")
      expect(stdout).toContain("Examples:")
      expect({ stderr, status }).toEqual({ stderr: "", status: 0 })
      expect((await berth(["help", command])).stdout).toBe(stdout)
    },
  )

  it.each([
    [["serv"], "unknown command 'serv' (Did you mean serve?)"],
    [["serve", "--prot", "1"], "unknown option '--prot' (Did you mean --port?)"],
    [["serve", "--port"], "argument missing"],
    [["config", "extra"], "too many arguments"],
    [["--nope"], "unknown option '--nope'"],
  ])("refuses %j", async (args, message) => {
    const { stdout, stderr, status } = await berth(args)
    expect(stderr).toContain(`berth: `)
    expect(stderr).toContain(message)
    expect(stderr).toContain("hint: `berth --help`")
    expect({ stdout, status }).toEqual({ stdout: "", status: 2 })
  })

  it("writes a wrong usage as JSON when JSON is asked for", async () => {
    const { stdout, stderr, status } = await berth(["status", "--nope", "--json"])
    expect(JSON.parse(stderr).error).toMatchObject({ code: "input.usage", retry: "never" })
    expect({ stdout, status }).toEqual({ stdout: "", status: 2 })
  })
})
