import { describe, expect, it } from "vitest"
import { CLOSED_ATTEMPTS } from "../attempts.ts"
import { MOUNTED_FILE, WRITABLE_MOUNT } from "../escapes/system.ts"
import { itFails } from "./expect.ts"
import { type IsolationTestbed, onThisMachine, UNHARDENED_ATTEMPTS } from "./testbed.ts"

/** The attempts against the kernel, the host's files and its processes. */
export const withoutNetwork = (testbed: IsolationTestbed): void => {
  describe("a sandbox without a network", () => {
    itFails(testbed, "closed", CLOSED_ATTEMPTS)

    for (const { name } of onThisMachine(UNHARDENED_ATTEMPTS)) {
      it(`could, if it were not hardened: ${name}`, () => {
        expect(testbed.outcome("unhardened", name)?.tries.map(({ outcome }) => outcome)).toContain(
          "ok",
        )
      })
    }

    it("could write to a read-only mount's files where they are mounted writable", async () => {
      const script = `echo x > ${WRITABLE_MOUNT}/${MOUNTED_FILE}-2 && echo done`
      const { mounts } = testbed.planted
      const { output } = await testbed.sandboxes.run(["/bin/sh", "-c", script], { mounts })
      expect(output).toBe("done\n")
    })
  })
}
