import { requires } from "@berth/testing/requires"
import { freeze } from "./freeze.ts"
import { describeLeases } from "./suite.ts"

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces").describe(
  "leases through a server, embedded",
  () =>
    describeLeases({
      name: "embedded",
      flags: async () => [],
      freeze: async (sandbox) => freeze(sandbox),
      few: { cases: 1, groups: 2 },
    }),
)
