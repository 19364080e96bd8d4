import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { berth, makeDir } from "../testing/berth.ts"

const ID = `tb-${"0".repeat(40)}`

describe("berth toolbox", () => {
  it.each([[["toolbox"]], [["toolbox", "ls"]]])(
    "says that there is no toolbox: %j",
    async (args) => {
      const dataDir = join(makeDir(), "not made yet")
      const given = [...args, "--data-dir", dataDir]
      expect(await berth(given)).toEqual({
        stdout: "There is no toolbox yet: berth toolbox build makes it.\n",
        stderr: "",
        status: 0,
      })
      const { stdout } = await berth([...given, "--json"])
      expect(JSON.parse(stdout)).toEqual({ toolboxes: [] })
    },
  )

  it("lists a damaged toolbox as damaged, and fails to verify it", async () => {
    const dataDir = makeDir()
    mkdirSync(join(dataDir, "toolbox", ID), { recursive: true })
    writeFileSync(join(dataDir, "toolbox", ID, "manifest.json"), "{}")
    const listed = await berth(["toolbox", "--data-dir", dataDir])
    expect(listed.stdout).toBe(`${ID}  damaged: its manifest cannot be trusted\n`)

    const verified = await berth(["toolbox", "verify", "--data-dir", dataDir])
    expect(verified).toMatchObject({ status: 1, stderr: "" })
    expect(verified.stdout).toContain(`${ID}  changed since it was built\n`)
    expect(verified.stdout).toContain("  manifest.json is not to be trusted: found cannot be read")
    const json = await berth(["toolbox", "verify", ID, "--json", "--data-dir", dataDir])
    expect(json.status).toBe(1)
    expect(JSON.parse(json.stdout).toolboxes).toEqual([
      expect.objectContaining({ id: ID, status: "changed" }),
    ])
  })

  it("fails to verify where there is no toolbox", async () => {
    const dataDir = makeDir()
    for (const args of [[], [ID]]) {
      const { stdout, stderr, status } = await berth([
        ...["toolbox", "verify", ...args, "--json", "--data-dir", dataDir],
      ])
      expect({ stdout, status }).toEqual({ stdout: "", status: 1 })
      expect(JSON.parse(stderr).error).toMatchObject({ code: "toolbox.unknown" })
    }
  })

  it("refuses an invalid id, as wrong usage", async () => {
    const { stderr, status } = await berth(["toolbox", "verify", "../../etc"])
    expect(stderr).toContain("../../etc is not the id of a toolbox")
    expect(status).toBe(2)
  })

  it("[R2.6] names the program that the host lacks, and builds nothing", async () => {
    const dataDir = makeDir()
    const args = ["toolbox", "build", "--data-dir", dataDir]
    const { stdout, stderr, status } = await berth(args, { env: { PATH: "/nonexistent" } })
    expect({ stdout, status }).toEqual({ stdout: "", status: 1 })
    expect(stderr).toContain("berth: the toolbox needs tini, and it is not installed on this host")
    expect(stderr).toContain("scripts/system-deps")
    expect((await berth(["toolbox", "--data-dir", dataDir])).stdout).toContain("no toolbox yet")
  })

  it.each([["ls"], ["build"], ["verify"]])("helps with %s", async (word) => {
    const { stdout, stderr, status } = await berth(["toolbox", word, "--help"])
    expect(stdout).toContain(`Usage: berth toolbox ${word}`)
    expect(stdout).toContain("--json")
    expect(stdout).toContain("BERTH_DATA_DIR")
    expect({ stderr, status }).toEqual({ stderr: "", status: 0 })
    const all = await berth(["toolbox", "--help"])
    expect(all.stdout).toMatch(new RegExp(`^  ${word} `, "m"))
  })
})
