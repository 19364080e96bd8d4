import { requires } from "@berth/testing/requires"
import { useSharedEngine } from "../docker/engine.ts"
import { describeLeases } from "./suite.ts"

requires("root", "docker", "tini").describe("leases through a server, on Docker", () =>
  describeLeases({
    name: "docker",
    flags: async () => (await useSharedEngine()).flags,
    freeze: async (sandbox) => (await useSharedEngine()).pause(sandbox),
    few: { cases: 0, groups: 0 },
  }),
)
