import { sized } from "@berth/testing/sampled"
import { afterAll, beforeAll, describe } from "vitest"
import type { Differences } from "./attempt.ts"
import { afterwards } from "./isolation/afterwards.ts"
import { besideOthers } from "./isolation/beside-others.ts"
import { exhaustion } from "./isolation/exhaustion.ts"
import type { IsolationHarness, IsolationOptions } from "./isolation/harness.ts"
import { onSmallDisk } from "./isolation/small-disk.ts"
import { IsolationTestbed } from "./isolation/testbed.ts"
import { withInternet } from "./isolation/with-internet.ts"
import { withoutNetwork } from "./isolation/without-network.ts"

/**
 * The parts of the suite. `escapes` is the ways out, `no-network` adds what a sandbox can use up, `whole` adds the
 * network. A part leaves out what another run of the suite has shown. In a whole run it is the whole.
 */
const PARTS = { escapes: 1, "no-network": 2, whole: 3 } as const
type Part = keyof typeof PARTS

interface Extent {
  readonly part?: Part
  /** A whole suite fills a small disk as well, on a host of its own. */
  readonly onSmallDisk?: boolean
}

/** The escape attempts that every backend withstands, from inside real sandboxes. docs/SECURITY.md lists them. */
export const isolationSuite = (
  name: string,
  open: (options: IsolationOptions) => Promise<IsolationHarness>,
  differences: Differences = {},
  { part = "whole", onSmallDisk: fillsSmallDisk = true }: Extent = {},
) => {
  const extent = sized(`parts of the isolation suite, ${name}`, {
    few: PARTS[part],
    all: PARTS.whole,
  })
  const isWhole = extent === PARTS.whole

  describe(`isolation: ${name}`, () => {
    const testbed = new IsolationTestbed({ open, differences, isWhole })
    beforeAll(() => testbed.open())
    afterAll(() => testbed.close())

    withoutNetwork(testbed)
    besideOthers(testbed)
    if (isWhole) withInternet(testbed)
    if (extent >= PARTS["no-network"]) exhaustion(testbed)
    afterwards(testbed)
  })

  if (fillsSmallDisk && isWhole) {
    describe(`isolation: ${name}, on a small disk`, () => onSmallDisk(open))
  }
}
