import { describeOn } from "../backends.ts"
import { freeze } from "./freeze.ts"
import { describeLeases } from "./suite.ts"

describeOn(["embedded"], "leases through a server", (name) =>
  describeLeases({ name, freeze: async (sandbox) => freeze(sandbox) }),
)
