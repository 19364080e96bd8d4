import type { SandboxSpec } from "@berth/protocol/sandbox"
import type { AddCase, AddGroup } from "@berth/testing/sampled-cases"
import { expect } from "vitest"
import { exitsOf } from "./events.ts"
import { type ContractTestbed, GRACE_MS } from "./testbed.ts"

/** The sandboxes that an installation lists. */
export const installationCases = (
  testbed: ContractTestbed,
  it: AddCase,
  describe: AddGroup,
): void => {
  describe("the sandboxes of an installation", () => {
    it("[R1.1] are listed by their labels: installation, workspace, sandbox, config hash", async () => {
      const spec = testbed.specOf()
      await testbed.backend.create(spec)
      const listed = await testbed.backend.list()
      expect(listed.map((each) => each.identity)).toEqual([spec.identity])
    })

    it("[R1.1] are listed without those of another installation, which calls do not touch", async () => {
      const { backend, installation } = await testbed.harness.other()
      await backend.repair()
      const foreign = testbed.specOf()
      testbed.forget(foreign.identity.sandbox)
      const theirs: SandboxSpec = {
        ...foreign,
        identity: { ...foreign.identity, installation },
      }
      await backend.create(theirs)
      try {
        expect(await testbed.backend.list()).toEqual([])
        expect(await testbed.backend.inspect(theirs.identity.sandbox)).toBeUndefined()
        await testbed.backend.remove(theirs.identity.sandbox)
        expect(await backend.inspect(theirs.identity.sandbox)).toMatchObject({
          state: "created",
        })
        await expect(testbed.backend.create(theirs)).rejects.toMatchObject({
          code: "input.invalid",
        })
      } finally {
        await backend.remove(theirs.identity.sandbox)
      }
    })

    it("[R1.9] are found running, paused and ended after a restart of the server", async () => {
      const [running, paused] = [await testbed.boot(), await testbed.boot()]
      await testbed.backend.pause(paused)
      const { sandbox: ended, exit } = await testbed.run("exit 9")
      const again = await testbed.harness.reopen()
      await again.repair()
      const states = new Map((await again.list()).map((each) => [each.identity.sandbox, each]))
      expect(states.get(running)).toMatchObject({ state: "running" })
      expect(states.get(paused)).toMatchObject({ state: "paused" })
      expect(states.get(ended)).toMatchObject({ state: "exited", exit })
      await again.resume(paused)
      await using exits = exitsOf(again)
      await again.stop(running, { graceMs: GRACE_MS })
      expect(await exits.of(running)).toMatchObject({ code: 0 })
    })
  })
}
