import { mkdtemp } from "node:fs/promises"
import { join } from "node:path"
import { findTool } from "@berth/host/find-tool"
import { mountCommand } from "@berth/host/mounts/mounter"
import { tryMappedOverlay } from "@berth/host/mounts/trial"
import { isRoot } from "../tools/as-root.ts"
import type { Check } from "../tools/check.ts"
import { fixForMissing } from "../tools/install.ts"
import { nearestDirectory } from "../tools/nearest-directory.ts"
import { oneLine } from "../tools/one-line.ts"

/** Two ranges that no user of the host has. */
const TRIED = { onDisk: 0x7001_0000, own: 0x7002_0000, count: 65_536 }

export const mappedIds: Check = {
  name: "mapped-ids",
  why: "They give each sandbox a range of ids of its own, for which the kernel counts what it uses.",
  onlyFor: "embedded",
  probe: async (host, signal) => {
    const architecture = process.arch === "arm64" ? "arm64" : "x64"
    const mount = mountCommand(await findTool("perl", host.path), architecture)
    if (mount === undefined) {
      const fix = await fixForMissing("perl", "perl")
      return { status: "degraded", found: "no perl on the path", fix, details: {} }
    }
    if (!isRoot()) {
      const found = "only root can try"
      return { status: "degraded", found, fix: "sudo berth doctor", details: {} }
    }
    const directory = await nearestDirectory(host.dataDir)
    const trial = await mkdtemp(join(directory, ".berth-doctor-"))
    const failure = await tryMappedOverlay(mount, trial, TRIED, signal)
    const details = { directory }
    if (failure === undefined) return { status: "ok", found: `work in ${directory}`, details }
    return {
      status: "degraded",
      found: `fail in ${directory}, so that sandboxes share one range: ${oneLine(failure)}`,
      fix: "use Linux 5.19 or newer, and a data directory on ext4, xfs or btrfs",
      details,
    }
  },
}
