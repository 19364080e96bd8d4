import { run } from "@berth/host/run"
import { requires } from "@berth/testing/requires"
import { expect, it } from "vitest"
import {
  COUNTED,
  COUNTED_BY_NUMBER,
  COUNTED_PROBES,
  NUMBERED_PROBES,
} from "../escapes/exhaustion.ts"
import { running } from "../inside.ts"
import { expectEnd } from "./expect.ts"
import type { IsolationTestbed } from "./testbed.ts"

/** Resources that the kernel counts per user or per id. */
export const countedResources = (testbed: IsolationTestbed): void => {
  if (testbed.differences[COUNTED.name] === undefined) {
    it(`cannot ${COUNTED.name}`, async () => {
      const sandbox = await testbed.sandboxes.boot(running(COUNTED.script))
      try {
        await expectEnd(testbed.sandboxes, sandbox, COUNTED)
        const probes = running(COUNTED_PROBES)
        const { signal } = new AbortController()
        const [host, other] = await Promise.all([
          run(probes, { signal }).then((it) => it.stdout),
          testbed.sandboxes.run(probes).then((it) => it.output),
        ])
        expect({ host, other }).toEqual({
          host: expect.stringMatching(/^(try .*: ok\n){7}$/),
          other: expect.stringMatching(/^(try .*: ok\n){7}$/),
        })
      } finally {
        await testbed.harness.backend.remove(sandbox)
      }
    })
  }

  if (testbed.differences[COUNTED_BY_NUMBER.name] === undefined) {
    requires("mappedIds").it(`cannot ${COUNTED_BY_NUMBER.name}`, async () => {
      const sandbox = await testbed.sandboxes.boot(running(COUNTED_BY_NUMBER.script))
      try {
        await expectEnd(testbed.sandboxes, sandbox, COUNTED_BY_NUMBER)
        const { output } = await testbed.sandboxes.run(running(NUMBERED_PROBES))
        expect(output).toMatch(/^(try .*: ok\n){2}$/)
      } finally {
        await testbed.harness.backend.remove(sandbox)
      }
    })
  }
}
