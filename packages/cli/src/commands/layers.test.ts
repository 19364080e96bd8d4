import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { berth, makeDir } from "../testing/berth.ts"

describe("berth layers", () => {
  it.each([[["layers"]], [["layers", "ls"]]])("says that there are no layers: %j", async (args) => {
    const given = [...args, "--data-dir", join(makeDir(), "not made yet")]
    expect(await berth(given)).toEqual({
      stdout: expect.stringMatching(/^No workspace has files here yet\. .*\n$/s),
      stderr: "",
      status: 0,
    })
    const { stdout } = await berth([...given, "--json"])
    const nothing = { stacks: [], layers: [], pins: [], ownerless: [], trash: 0, bytes: 0 }
    expect(JSON.parse(stdout)).toEqual(nothing)
  })

  it("verifies nothing where there are no layers", async () => {
    const { stdout, status } = await berth(["layers", "verify", "--data-dir", makeDir()])
    expect(status).toBe(0)
    expect(stdout).toBe("checked   0 stacks, 0 layers, 0 tops\n")
  })
})
