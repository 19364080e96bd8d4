import { expect, it, vi } from "vitest"
import { DISK_FILL } from "../escapes/exhaustion.ts"
import { running } from "../inside.ts"
import { newSecret } from "../planted.ts"
import { POLL, sandboxesOf } from "../sandboxes.ts"
import { expectEnd } from "./expect.ts"
import type { IsolationHarness, IsolationOptions } from "./harness.ts"

/** A disk that holds what a sandbox needs to boot, and is soon full. */
const SMALL_DISK_BYTES = 48 * 1024 * 1024

/** A sandbox that fills the disk of the server's data. */
export const onSmallDisk = (
  open: (options: IsolationOptions) => Promise<IsolationHarness>,
): void => {
  it(`cannot ${DISK_FILL.name} beyond the disk, and is removed from a full one`, async () => {
    const serverSecret = newSecret("server")
    const harness = await open({ serverSecret, diskBytes: SMALL_DISK_BYTES })
    try {
      const empty = await harness.census()
      const sandboxes = sandboxesOf(harness)
      const { notes } = await harness.backend.describe()
      expect(notes.join("\n")).toContain("fills the disk of the data directory")
      const full = await sandboxes.boot(running(DISK_FILL.script))
      await expectEnd(sandboxes, full, DISK_FILL)
      const another = () => sandboxes.run(["/bin/true"]).catch((failure: unknown) => failure)
      await vi.waitFor(
        async () => expect(await another()).toMatchObject({ code: "backend.disk_full" }),
        POLL,
      )
      expect(await harness.backend.inspect(full)).toMatchObject({ state: "running" })
      await harness.backend.remove(full)
      expect(await harness.census()).toEqual(empty)
      const { output } = await sandboxes.run(["/bin/sh", "-c", "echo life goes on"])
      expect(output).toBe("life goes on\n")
    } finally {
      await harness.close()
    }
  })
}
