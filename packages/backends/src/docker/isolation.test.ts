import { join } from "node:path"
import type { InstallationId } from "@berth/protocol/ids"
import { requires } from "@berth/testing/requires"
import { connectionsTableOf } from "../connections/rules.ts"
import { isDrawnForSmallDisk, isDrawnTwin } from "../testing/drawn-isolation.ts"
import { isolationSuite } from "../testing/isolation.ts"
import { openIsolationHarness } from "../testing/isolation-harness.ts"
import { networkNames } from "./network/names.ts"
import { DIFFERENCES, USER_NAMESPACE_DIFFERENCES } from "./testing/differences.ts"
import { unfenceInside } from "./testing/unfence-inside.ts"

/** The engine keeps neighbours apart by a rule of its own as well. */
const betweenNeighbours = (verb: string, installation: InstallationId): string => {
  const { device } = networkNames(installation)
  return `iptables ${verb} FORWARD -i ${device} -o ${device} -j ACCEPT`
}

const DOCKER = {
  file: join(import.meta.dirname, "testing/server.ts"),
  unfence: (installation: InstallationId) => [
    `nft delete table inet ${networkNames(installation).table}`,
    `nft delete table inet ${connectionsTableOf(networkNames(installation).table)}`,
    betweenNeighbours("-I", installation),
  ],
  unfenceInside,
  refence: (installation: InstallationId) => [betweenNeighbours("-D", installation)],
}

requires("root", "docker", "networkNamespaces").describe("docker", () => {
  isolationSuite("docker", (options) => openIsolationHarness(DOCKER, options), DIFFERENCES, {
    onSmallDisk: isDrawnForSmallDisk("docker"),
  })
})

const WITH_USER_NAMESPACES = {
  ...DOCKER,
  file: join(import.meta.dirname, "testing/server-with-user-namespaces.ts"),
}

const withUserNamespaces = requires("root", "docker", "userNamespaces", "networkNamespaces")
if (isDrawnTwin("docker with user namespaces"))
  withUserNamespaces.describe("docker with user namespaces", () => {
    isolationSuite(
      "docker with user namespaces",
      (options) => openIsolationHarness(WITH_USER_NAMESPACES, options),
      USER_NAMESPACE_DIFFERENCES,
      { part: "escapes" },
    )
  })
