import { expect, it } from "vitest"
import { CONNECTION_FLOOD, connectionFloodScript } from "../escapes/exhaustion.ts"
import { running } from "../inside.ts"
import type { IsolationTestbed } from "./testbed.ts"

/** Connections that the host's kernel tracks for all. */
export const connectionFlood = (testbed: IsolationTestbed): void => {
  it(`cannot ${CONNECTION_FLOOD.name}`, async () => {
    const { internet, ports, dial, tracked, withoutFence } = testbed.harness.network
    const open = { network: { kind: "open" } } as const
    const flood = running(connectionFloodScript(testbed.harness.network))
    const flooding = await testbed.sandboxes.boot(flood, open)
    try {
      const said = await testbed.sandboxes.said(flooding, /^try one more: .+$/m)
      expect(said).toBe(`try one more: ${CONNECTION_FLOOD.sees[0]}\n`)
      // The sandbox's connections are still tracked; the host and another sandbox can open theirs.
      expect(await dial(internet, ports.any)).toContain(" hears ")
      const script = `try_to("internet", sub { dial("${internet}", ${ports.any}) });`
      const { output } = await testbed.sandboxes.run(running(script), open)
      expect(output).toBe("try internet: heard\n")
      const held = await tracked()
      expect(held).toBeGreaterThan(1_000)
      // Rules that are made anew count from nothing, so the kernel forgets what they would not count.
      await withoutFence(async () => {})
      expect(await tracked()).toBeLessThan(held / 2)
    } finally {
      await testbed.harness.backend.remove(flooding)
    }
  })
}
