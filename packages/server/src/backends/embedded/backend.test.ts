import { mkdtemp, rm, symlink } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { requires } from "@berth/testing/requires"
import { findTool } from "../../host/find-tool.ts"
import { PLAIN_ENV } from "../../host/run.ts"
import { backendContract } from "../contract.ts"
import { openHarness } from "./testing/harness.ts"

/** A place of programs in which runc is the only runtime. */
const withRuncOnly = async () => {
  const path = await mkdtemp(join(tmpdir(), "berth-runc-"))
  for (const tool of ["runc", "conmon", "tini"]) {
    await symlink((await findTool(tool, PLAIN_ENV.PATH)) ?? "", join(path, tool))
  }
  const harness = await openHarness({ path })
  const close = async () => {
    await harness.close()
    await rm(path, { recursive: true })
  }
  return { ...harness, close }
}

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces").describe("embedded", () => {
  backendContract("embedded", openHarness)
})

requires("root", "runc", "conmon", "tini", "userNamespaces").describe("embedded on runc", () => {
  backendContract("embedded on runc", withRuncOnly)
})
