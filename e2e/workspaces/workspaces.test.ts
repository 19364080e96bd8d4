import { requires } from "@berth/testing/requires"
import { describeWorkspaces } from "./suite.ts"

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces").describe(
  "workspaces through a server, embedded",
  () =>
    describeWorkspaces({
      backend: "embedded",
      flags: async () => [],
      few: { groups: 3, uses: 2, cases: 1 },
    }),
)
