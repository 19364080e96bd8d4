import { DoctorReport } from "@berth/protocol/doctor"
import { describe, expect, it } from "vitest"
import { berth, makeDir } from "../testing/berth.ts"

describe("berth doctor", () => {
  it("reports to people and to programs, and its exit status tells whether something is missing", async () => {
    const args = ["doctor", "--data-dir", makeDir()]
    const [people, programs] = await Promise.all([berth(args), berth([...args, "--json"])])
    const report = DoctorReport.parse(JSON.parse(programs.stdout))
    for (const { name } of report.checks) expect(people.stdout).toContain(name)
    for (const { status, stderr } of [people, programs]) {
      expect({ status, stderr }).toEqual({
        status: report.status === "missing" ? 1 : 0,
        stderr: "",
      })
    }
  })

  it("reports that something is missing on an empty path, and exits with 1", async () => {
    const { stdout, status } = await berth(["doctor", "--json"], { env: { PATH: "/nonexistent" } })
    expect(DoctorReport.parse(JSON.parse(stdout)).status).toBe("missing")
    expect(status).toBe(1)
  })
})
