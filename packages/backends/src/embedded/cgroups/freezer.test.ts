import { readFile, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { freeze } from "./freezer.ts"
import { soon, temporaryDirectory } from "./testing/host.ts"

/** A v2 cgroup in plain files: it accepts every order to freeze, and never reports that it is frozen. */
const neverFrozen = async () => {
  const directory = await temporaryDirectory()
  await writeFile(join(directory, "cgroup.freeze"), "0")
  await writeFile(join(directory, "cgroup.events"), "populated 1\nfrozen 0\n")
  const ordered = () => readFile(join(directory, "cgroup.freeze"), "utf8")
  return { freezer: { version: 2 as const, directory }, ordered }
}

describe("freezing a cgroup that does not come to a stop", () => {
  it("is undone when it is cancelled", async () => {
    const { freezer, ordered } = await neverFrozen()
    const stop = new AbortController()
    const reason = new Error("called off")
    const frozen = freeze(freezer, stop.signal)
    const rejected = expect(frozen).rejects.toBe(reason)
    await expect.poll(ordered).toBe("1")
    stop.abort(reason)
    await rejected
    expect(await ordered()).toBe("0")
  })

  it("is given up and undone at its deadline, with the path of the cgroup", async () => {
    const { freezer, ordered } = await neverFrozen()
    await expect(freeze(freezer, soon())).rejects.toMatchObject({
      code: "deadline.exceeded",
      details: { path: freezer.directory },
    })
    expect(await ordered()).toBe("0")
  })
})
