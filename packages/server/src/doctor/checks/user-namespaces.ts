import { readFile } from "node:fs/promises"
import { asRoot } from "../tools/as-root.ts"
import type { Check } from "../tools/check.ts"
import { findTrialTools } from "../tools/in-namespaces.ts"
import { oneLine } from "../tools/one-line.ts"
import { runTool } from "../tools/run-tool.ts"

export const userNamespaces: Check = {
  name: "user-namespaces",
  why: "They make root inside a sandbox nobody outside of it.",
  onlyFor: "embedded",
  probe: async (host, signal) => {
    const tools = await findTrialTools(host)
    if ("missing" in tools) return tools.missing
    const { unshare, shell } = tools
    const trial = [unshare, "--user", "--map-root-user", shell, "-c", PRINT_UID] as const
    const { status, stdout, stderr } = await runTool(host, trial, signal)
    const uid = process.getuid?.() ?? -1
    if (status === 0 && stdout.trim() === "0") {
      return { status: "ok", found: `root inside, uid ${uid} outside`, details: { uid } }
    }
    return {
      status: "missing",
      found: `one cannot be made: ${oneLine(stderr)}`,
      fix: fixFor(await readSwitches()),
      details: { uid },
    }
  },
}

/** The first word of the map is the uid that this process has inside. */
const PRINT_UID = "read -r inside rest < /proc/self/uid_map && echo $inside"

/** The kernel's switches that can forbid user namespaces; undefined where this kernel has no such switch. */
export interface Switches {
  readonly maxUserNamespaces: string | undefined
  readonly unprivilegedUsernsClone: string | undefined
  readonly apparmorRestricts: string | undefined
}

const readSwitches = async (): Promise<Switches> => ({
  maxUserNamespaces: await readSwitch("/proc/sys/user/max_user_namespaces"),
  unprivilegedUsernsClone: await readSwitch("/proc/sys/kernel/unprivileged_userns_clone"),
  apparmorRestricts: await readSwitch("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
})

const readSwitch = async (file: string): Promise<string | undefined> => {
  try {
    return (await readFile(file, "utf8")).trim()
  } catch {
    return undefined
  }
}

export const fixFor = (switches: Switches): string => {
  if (switches.maxUserNamespaces === "0") return asRoot("sysctl -w user.max_user_namespaces=15000")
  if (switches.unprivilegedUsernsClone === "0") {
    return asRoot("sysctl -w kernel.unprivileged_userns_clone=1")
  }
  if (switches.apparmorRestricts === "1") {
    return asRoot("sysctl -w kernel.apparmor_restrict_unprivileged_userns=0")
  }
  return "run the server outside of the container or sandbox that forbids user namespaces"
}
