import { requires } from "@berth/testing/requires"
import { backendContract } from "../testing/contract.ts"
import { openHarness } from "./testing/harness.ts"

requires("docker").describe("docker", () => {
  backendContract("docker", openHarness, { drawn: 24 })
})
