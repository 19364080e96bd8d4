import { requires } from "@berth/testing/requires"
import { backendContract } from "../contract.ts"
import { openHarness } from "./testing/harness.ts"
import { openHarnessOnRunc } from "./testing/on-runc.ts"

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces").describe("embedded", () => {
  backendContract("embedded", openHarness)
})

requires("root", "runc", "conmon", "tini", "userNamespaces").describe("embedded on runc", () => {
  backendContract("embedded on runc", openHarnessOnRunc)
})
