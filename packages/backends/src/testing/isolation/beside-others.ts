import { run } from "@berth/host/run"
import { TOOLBOX_TARGET } from "@berth/protocol/inside"
import { describe, expect, it } from "vitest"
import { AT_THE_END } from "../escapes/exhaustion.ts"
import { OTHERS_AT_WORK, WATCHER, WATCHING } from "../escapes/watching.ts"
import { running } from "../inside.ts"
import { POLL } from "../sandboxes.ts"
import { GRACE_MS, type IsolationTestbed } from "./testbed.ts"

/** A sandbox that watches for traces of others at work. */
export const besideOthers = (testbed: IsolationTestbed): void => {
  describe("a sandbox beside others", () => {
    it(`cannot ${WATCHER.name}`, async () => {
      const [readOnly] = testbed.planted.mounts
      // An image must have the libraries of the toolbox's programs, and the suite's image has not.
      const hasToolbox = readOnly !== undefined && testbed.harness.system.kind === "host"
      const mounts = hasToolbox ? [{ ...readOnly, target: TOOLBOX_TARGET }] : []
      const watcher = await testbed.sandboxes.boot(running(WATCHER.script), { mounts })
      try {
        await testbed.sandboxes.said(watcher, WATCHING)
        const { output: other } = await testbed.sandboxes.run(running(OTHERS_AT_WORK), { mounts })
        const onHost = running(OTHERS_AT_WORK)
        const { stdout: host } = await run(onHost, {
          signal: AbortSignal.timeout(POLL.timeout),
          deadlineMs: POLL.timeout,
        })
        expect({ host, other }).toEqual({
          host: expect.stringMatching(/^(try .*: ok\n){5,}$/),
          other: expect.stringMatching(/^(try .*: ok\n){5,}$/),
        })
        await testbed.harness.backend.stop(watcher, { graceMs: GRACE_MS })
        const said = await testbed.harness.backend.logs(watcher)
        expect(said).toMatch(/^its own: .*\/usr\/bin\/env/m)
        expect(said).toContain(`${AT_THE_END}: nothing\n`)
      } finally {
        await testbed.harness.backend.remove(watcher)
      }
    })
  })
}
