import { join } from "node:path"
import { startChild } from "@berth/testing/child"
import { requires } from "@berth/testing/requires"
import { onSmallDisk } from "@berth/testing/small-disk"
import { expect } from "vitest"
import { makeDirectory } from "./testing/open-for-test.ts"

requires("userNamespaces").it(
  "fails a build on a full disk with that reason, leaves nothing, and builds once there is space",
  async () => {
    const [disk, inputs] = [makeDirectory(), join(makeDirectory(), "inputs")]
    const child = startChild(join(import.meta.dirname, "testing/full-disk-child.ts"), {
      args: [disk, inputs],
      wrapper: onSmallDisk(disk),
    })
    const lines = await child.rest<{ free: string; outcome: unknown; left: string[] }>()
    expect(lines.length).toBeGreaterThan(5)
    for (const { free, outcome, left } of lines.slice(0, -1))
      expect({ free, outcome, left }).toEqual({ free, outcome: "toolbox.disk_full", left: [] })
    expect(lines.at(-1)).toMatchObject({ outcome: "built" })
  },
)
