import { requires } from "@berth/testing/requires"
import { backendContract } from "../contract.ts"
import { openHarness } from "./testing/harness.ts"

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces").describe("embedded", () => {
  backendContract("embedded", openHarness)
})
