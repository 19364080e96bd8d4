import { requires } from "@berth/testing/requires"
import { describeFullDisk } from "./suite.ts"

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces").describe(
  "sandboxes of an OCI runtime",
  () =>
    describeFullDisk({
      backend: "embedded",
      flags: () => [],
      few: { attacks: 1, cases: 1 },
      sparesRoot: true,
    }),
)
