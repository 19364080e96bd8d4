import { requires } from "@berth/testing/requires"
import { isolationSuite } from "../isolation.ts"
import { openIsolationHarness } from "./testing/isolation-harness.ts"

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces", "networkNamespaces").describe(
  "embedded",
  () => {
    isolationSuite("embedded", openIsolationHarness)
  },
)
