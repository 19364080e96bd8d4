import { requires } from "@berth/testing/requires"
import { useSharedEngine } from "../docker/engine.ts"
import { describeWorkspaces } from "./suite.ts"

requires("root", "docker", "tini").describe("workspaces through a server, on Docker", () =>
  describeWorkspaces({
    backend: "docker",
    flags: async () => (await useSharedEngine()).flags,
    few: { groups: 0, uses: 1, cases: 0 },
  }),
)
