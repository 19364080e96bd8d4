import { describeOn } from "../backends.ts"
import { useSharedEngine } from "../docker/engine.ts"
import { describeLeases } from "./suite.ts"

describeOn(["docker"], "leases through a server", (name) =>
  describeLeases({
    name,
    freeze: async (sandbox) => (await useSharedEngine()).pause(sandbox),
  }),
)
