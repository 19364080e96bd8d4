import { join } from "node:path"
import type { InstallationId } from "@berth/protocol/ids"
import { requires } from "@berth/testing/requires"
import { isolationSuite } from "../isolation.ts"
import { openIsolationHarness } from "../testing/isolation-harness.ts"
import { namesOf } from "./network/names.ts"

const EMBEDDED = {
  file: join(import.meta.dirname, "testing/server.ts"),
  unfence: (installation: InstallationId) => [
    `nft delete table inet ${namesOf(installation).table}`,
    `nft delete table inet ${namesOf(installation).connectionsTable}`,
  ],
}

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces", "networkNamespaces").describe(
  "embedded",
  () => {
    isolationSuite("embedded", (options) => openIsolationHarness(EMBEDDED, options))
  },
)
