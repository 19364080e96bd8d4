import { dirname } from "node:path"
import { findTool } from "@berth/host/find-tool"
import { asRoot, isRoot } from "./as-root.ts"

/** The parts that the checks ask a package manager for. */
export type Part =
  | "conmon"
  | "crun"
  | "runc"
  | "docker"
  | "git"
  | "iproute2"
  | "nftables"
  | "perl"
  | "tini"
  | "util-linux"

/** The install command of each package manager, and its package names where they differ from ours. */
const MANAGERS = {
  "apt-get": { command: "apt-get install -y", names: { docker: "docker.io" } },
  dnf: { command: "dnf install -y", names: { docker: "moby-engine", iproute2: "iproute" } },
  zypper: { command: "zypper install -y", names: {} },
  pacman: { command: "pacman -S --noconfirm", names: {} },
  apk: { command: "apk add", names: {} },
} as const satisfies Record<string, { command: string; names: Partial<Record<Part, string>> }>

export type PackageManager = keyof typeof MANAGERS

/** The directories in which packages put their programs, whatever $PATH says. */
export const SYSTEM_PATH = "/usr/bin:/bin:/usr/sbin:/sbin"

const findPackageManager = async (): Promise<PackageManager | undefined> => {
  for (const manager of Object.keys(MANAGERS) as PackageManager[]) {
    if (await findTool(manager, SYSTEM_PATH)) return manager
  }
  return undefined
}

export const installCommand = (
  part: Part,
  manager: PackageManager | undefined,
  root = isRoot(),
): string => {
  if (manager === undefined) return `install ${part} with the system's package manager`
  const { command, names }: { command: string; names: Partial<Record<Part, string>> } =
    MANAGERS[manager]
  return asRoot(`${command} ${names[part] ?? part}`, root)
}

/**
 * The command that installs a missing part. Often its tool is installed, only not in a directory of $PATH: then the fix
 * is about the path.
 */
export const fixForMissing = async (tool: string | undefined, part: Part): Promise<string> => {
  const elsewhere = tool === undefined ? undefined : await findTool(tool, SYSTEM_PATH)
  if (elsewhere !== undefined) return `export PATH="$PATH:${dirname(elsewhere)}"`
  return installCommand(part, await findPackageManager())
}
