import { stripVTControlCharacters } from "node:util"
import { DoctorReport } from "@berth/protocol/doctor"
import { describe, expect, it } from "vitest"
import { renderReport } from "./render.ts"

const REPORT: DoctorReport = {
  status: "missing",
  checks: [
    { name: "git", why: "To clone.", status: "ok", found: "git 2.39.5", details: {} },
    {
      name: "docker",
      why: "For the docker backend.",
      status: "degraded",
      found: "not reachable",
      fix: "systemctl restart docker",
      details: {},
    },
    {
      name: "tini",
      why: "It reaps.",
      status: "missing",
      found: "no tini on the path",
      fix: "apt-get install -y tini",
      details: {},
    },
  ],
}

describe("renderReport", () => {
  it("prints a row for each check, and reason and fix below each lack", () => {
    expect(renderReport(REPORT, { color: false })).toBe(`\
ok        git     git 2.39.5
degraded  docker  not reachable
                  why: For the docker backend.
                  fix: systemctl restart docker
missing   tini    no tini on the path
                  why: It reaps.
                  fix: apt-get install -y tini

Something that Berth needs is missing on this host: see the fixes above.
`)
  })

  it("only adds colour to the same text", () => {
    const colored = renderReport(REPORT, { color: true })
    expect(colored).toContain("\u001b[31m")
    expect(stripVTControlCharacters(colored)).toBe(renderReport(REPORT, { color: false }))
  })

  it.each([
    ["ok", "This host has everything Berth uses."],
    ["degraded", "Berth runs on this host, with something lost: see the fixes above."],
  ] as const)("closes with the verdict for %s", (status, verdict) => {
    expect(renderReport({ status, checks: [] }, { color: false })).toBe(`\n${verdict}\n`)
  })
})

describe("the report's schema", () => {
  it("refuses a lack without a fix", () => {
    const [git] = REPORT.checks
    const unfixed = { ...git, status: "missing" }
    expect(DoctorReport.safeParse({ status: "missing", checks: [unfixed] }).success).toBe(false)
    expect(DoctorReport.safeParse(REPORT).success).toBe(true)
  })
})
