import { join } from "node:path"
import { run } from "@berth/host/run"
import type { InstallationId } from "@berth/protocol/ids"
import { requires } from "@berth/testing/requires"
import { expect, it } from "vitest"
import type { Differences } from "../testing/attempt.ts"
import { isDrawnForSmallDisk, isDrawnTwin } from "../testing/drawn-isolation.ts"
import { AT_THE_END, COUNTED, LIMITED, LIMITED_PROBES } from "../testing/escapes/exhaustion.ts"
import { running } from "../testing/inside.ts"
import { isolationSuite } from "../testing/isolation.ts"
import { openIsolationHarness } from "../testing/isolation-harness.ts"
import { POLL, sandboxesOf } from "../testing/sandboxes.ts"
import { namesOf } from "./network/names.ts"
import { openHarnessOnRunc } from "./testing/on-runc.ts"

const unfence = (installation: InstallationId) => [
  `nft delete table inet ${namesOf(installation).table}`,
  `nft delete table inet ${namesOf(installation).connectionsTable}`,
  // Flushes the policies of a network namespace of the test's own.
  "ip xfrm policy flush",
]
const EMBEDDED = { file: join(import.meta.dirname, "testing/server.ts"), unfence }
const ON_RUNC = { file: join(import.meta.dirname, "testing/server-on-runc.ts"), unfence }

/** runc makes a sandbox's user namespace as the host's root. */
const RUNC_DIFFERENCES: Differences = {
  [COUNTED.name]: { sees: [], why: "instances of inotify are counted for the host's root as well" },
}

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces", "networkNamespaces").describe(
  "embedded",
  () => {
    isolationSuite(
      "embedded",
      (options) => openIsolationHarness(EMBEDDED, options),
      {},
      { onSmallDisk: isDrawnForSmallDisk("embedded") },
    )
  },
)

const onRunc = requires("root", "runc", "conmon", "tini", "userNamespaces", "networkNamespaces")
if (isDrawnTwin("embedded on runc"))
  onRunc.describe("embedded on runc", () => {
    isolationSuite(
      "embedded on runc",
      (options) => openIsolationHarness(ON_RUNC, options),
      RUNC_DIFFERENCES,
      { part: "no-network" },
    )

    it("leaves the host's root message queues, signals and timers", async () => {
      const harness = await openHarnessOnRunc()
      try {
        const sandboxes = sandboxesOf(harness)
        const sandbox = await sandboxes.boot(running(LIMITED))
        expect(await sandboxes.said(sandbox, AT_THE_END)).toContain(`${AT_THE_END}: EAGAIN`)
        const signal = AbortSignal.timeout(POLL.timeout)
        const { stdout } = await run(running(LIMITED_PROBES), { signal })
        expect(stdout).toMatch(/^(try .*: ok\n){3}$/)
      } finally {
        await harness.close()
      }
    })
  })
