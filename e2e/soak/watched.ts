import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { InstallationId } from "@berth/protocol/ids"
import type { Client } from "@berth/sdk/client"
import { takeCensus } from "@berth/server/backends/embedded/testing/harness"

export const memoryMbOf = (pid: number): number => {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "utf8")
    return Math.round(Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024)
  } catch {
    return 0
  }
}

export const descriptorsOf = (pid: number): number => readdirSync(`/proc/${pid}/fd`).length

/** What is left on the host of sandboxes that are all removed, in words. */
export const takeLeftovers = async (client: Client, dataDir: string): Promise<string[]> => {
  const { installationId } = await client.status()
  const { cgroups, ...census } = await takeCensus(
    InstallationId.parse(installationId),
    join(dataDir, "embedded"),
  )
  const files = ["links", "layers/tops", "layers/layers", "layers/stacks"].map(
    (name) => [name, entriesOf(join(dataDir, name))] as const,
  )
  return [...Object.entries(census), ...files]
    .filter(([, count]) => count > 0)
    .map(([name, count]) => `${count} ${name}`)
}

const entriesOf = (path: string): number => {
  try {
    return readdirSync(path).length
  } catch {
    return 0
  }
}
