import { findTool } from "@berth/host/find-tool"
import { isRoot } from "../tools/as-root.ts"
import type { Check, DoctorHost } from "../tools/check.ts"
import { fixForMissing } from "../tools/install.ts"
import { runTool } from "../tools/run-tool.ts"

/** Each tool with a change that needs all of its parts: the program, the kernel's support and the right. */
const TRIALS = {
  nft: ["add", "table", "inet", "berth_doctor"],
  iptables: ["--new-chain", "berth-doctor"],
} as const

type Firewall = keyof typeof TRIALS

export const firewall: Check = {
  name: "firewall",
  why: "It keeps a sandbox away from the host's services and its neighbours, and bounds where it may connect.",
  probe: async (host, signal) => {
    const unshare = await findTool("unshare", host.path)
    if (unshare === undefined) {
      const fix = await fixForMissing("unshare", "util-linux")
      return { status: "missing", found: "no unshare on the path to try one", fix, details: {} }
    }
    const usable: Firewall[] = []
    for (const tool of Object.keys(TRIALS) as Firewall[]) {
      if (await works(tool, unshare, host, signal)) usable.push(tool)
    }
    const details = { usable }
    if (usable.length > 0) {
      return { status: "ok", found: `${usable.join(" and ")} can change rules`, details }
    }
    return {
      status: "degraded",
      found: "neither nft nor iptables can change rules",
      fix: await fixForMissing("nft", "nftables"),
      details,
    }
  },
}

/** Tries a tool in a network namespace of its own, which ends with the command and takes the rule along. */
const works = async (
  tool: Firewall,
  unshare: string,
  host: DoctorHost,
  signal: AbortSignal,
): Promise<boolean> => {
  const file = await findTool(tool, host.path)
  if (file === undefined) return false
  const rootless = isRoot() ? [] : ["--user", "--map-root-user"]
  const command = [unshare, ...rootless, "--net", file, ...TRIALS[tool]] as const
  return (await runTool(host, command, signal)).status === 0
}
