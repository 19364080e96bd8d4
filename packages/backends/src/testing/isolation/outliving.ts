import { randomBytes } from "node:crypto"
import { expect, it, vi } from "vitest"
import { OUTLIVING, outlivingScript } from "../escapes/exhaustion.ts"
import { running } from "../inside.ts"
import { POLL } from "../sandboxes.ts"
import type { IsolationTestbed } from "./testbed.ts"

/** Processes that stay when their sandbox ends. */
export const outliving = (testbed: IsolationTestbed): void => {
  it(`cannot ${OUTLIVING.name}`, async () => {
    const [first, second] = [newToken(), newToken()]
    const { processesWith } = testbed.harness
    const stays = await testbed.sandboxes.boot(
      running(`${outlivingScript(first)} sleep 1 while 1;`),
    )
    const ends = await testbed.sandboxes.boot(running(outlivingScript(second)))
    try {
      await testbed.sandboxes.ended(ends)
      expect(await processesWith(second)).toBe(0)
      await vi.waitFor(async () => expect(await processesWith(first)).toBe(1), POLL)
    } finally {
      await testbed.harness.backend.remove(stays)
      await testbed.harness.backend.remove(ends)
    }
    expect(await processesWith(first)).toBe(0)
  })
}

const newToken = () => `outlives-${randomBytes(8).toString("hex")}`
