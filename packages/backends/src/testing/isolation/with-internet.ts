import { describe, expect, it } from "vitest"
import { LISTED, OPEN_ATTEMPTS, STRAY } from "../escapes/network.ts"
import { running } from "../inside.ts"
import { itFails } from "./expect.ts"
import type { IsolationTestbed } from "./testbed.ts"

/** The attempts over the network, with the rules of the host and without. */
export const withInternet = (testbed: IsolationTestbed): void => {
  describe("a sandbox with the internet", () => {
    it("has a host with listeners on its loopback and over IPv6", async () => {
      const { dial, hostIpv6, ports } = testbed.harness.network
      expect(await dial("127.0.0.1", ports.loopback)).toContain(" hears ")
      expect(await dial(hostIpv6, ports.any)).toContain(" hears ")
    })

    it("reaches the internet", async () => {
      const { internet, ports } = testbed.harness.network
      const script = `try_to("internet", sub { dial("${internet}", ${ports.any}) });`
      const { output } = await testbed.sandboxes.run(running(script), { network: { kind: "open" } })
      expect(output).toBe("try internet: heard\n")
    })

    itFails(testbed, "connected", OPEN_ATTEMPTS)
    itFails(testbed, "listed", [LISTED])

    for (const { name } of OPEN_ATTEMPTS.filter((it) => it.heardUnfenced)) {
      it(`could, if the host had no rules: ${name}`, () => {
        const outcomes = testbed.outcome("unfenced", name)?.tries.map(({ outcome }) => outcome)
        expect(new Set(outcomes)).toEqual(new Set(["heard"]))
      })
    }

    it("gets no packet to a place where no connection leads; without the rules, packets arrive", () => {
      const stray = (texts: readonly string[]) => texts.filter((it) => it.startsWith(STRAY))
      expect(stray(testbed.packets.fenced)).toEqual([])
      const { host, metadata, notInternet } = testbed.harness.network
      const places = [host, metadata, ...Object.values(notInternet)]
      expect(stray(testbed.packets.unfenced)).toEqual(
        expect.arrayContaining(places.map((address) => `${STRAY} ${address}`)),
      )
    })
  })
}
