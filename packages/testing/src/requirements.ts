import { spawnSync } from "node:child_process"
import { accessSync, constants, statfsSync } from "node:fs"
import { release, tmpdir } from "node:os"
import { delimiter, join } from "node:path"

/** A trial of the kernel takes milliseconds; this covers a machine that is busy with other tests. */
const TRIAL_DEADLINE_MS = 10_000

/** `which` searches these after $PATH: administrators' tools are there even if they are not in the path. */
const SYSTEM_DIRECTORIES = ["/usr/sbin", "/sbin"]

/**
 * The things that a test may need of the machine, each with a probe that says why it cannot be had, or undefined if it
 * can. `scripts/system-deps --for test` installs the things that a package brings.
 */
export const REQUIREMENTS = {
  root: () => notRoot(),
  crunOrRunc: () =>
    which("crun") === undefined && which("runc") === undefined
      ? "neither crun nor runc is installed"
      : undefined,
  runc: () => missing("runc"),
  conmon: () => missing("conmon"),
  tini: () => missing("tini"),
  chromium: () => missing("chromium"),
  gitLfs: () => missing("git-lfs"),
  docker: () => notRoot() ?? missing("dockerd"),
  userNamespaces: () => trial("unshare", "--user", "--map-root-user", "true"),
  mappedIds: () => missing("perl") ?? unmappable(),
  networkNamespaces: () => trial("unshare", "--net", "true"),
  pip: () => trial("python3", "-m", "pip", "--version"),
  strace: () => trial("strace", "-o", "/dev/null", "true"),
  cargo: () => trial("cargo", "--version"),
} as const satisfies Record<string, () => string | undefined>

export type RequirementName = keyof typeof REQUIREMENTS

const notRoot = (): string | undefined =>
  process.getuid?.() === 0 ? undefined : "the tests do not run as root"

const missing = (tool: string): string | undefined =>
  which(tool) === undefined ? `${tool} is not installed` : undefined

/** The type numbers of ext4, xfs and btrfs, on which the oldest supported kernel maps ids. */
const MAPPED_FILE_SYSTEMS = [0xef53, 0x5846_5342, 0x9123_683e]

/** Why overlays cannot lie on mounts with mapped ids: that works from Linux 5.19 on. */
const unmappable = (): string | undefined => {
  const [major = 0, minor = 0] = release().split(".").map(Number)
  if (major < 5 || (major === 5 && minor < 19)) return `Linux ${release()} is older than 5.19`
  const isMapped = MAPPED_FILE_SYSTEMS.includes(statfsSync(tmpdir()).type)
  return isMapped ? undefined : `${tmpdir()} is on another file system than ext4, xfs and btrfs`
}

/** Runs a command that needs the thing itself, so that a tool that is installed but forbidden counts as unmet. */
const trial = (tool: string, ...args: string[]): string | undefined => {
  const file = which(tool)
  if (file === undefined) return `${tool} is not installed`
  const { error, status, stderr } = spawnSync(file, args, {
    stdio: ["ignore", "ignore", "pipe"],
    timeout: TRIAL_DEADLINE_MS,
    encoding: "utf8",
  })
  if (status === 0) return undefined
  const said = error?.message ?? stderr.trim().split("\n", 1)[0] ?? ""
  return `\`${[tool, ...args].join(" ")}\` fails: ${said || `status ${status}`}`
}

/** The path of an executable, or undefined. Only tests call it, so it may read the environment. */
const which = (tool: string): string | undefined =>
  [...(process.env.PATH ?? "").split(delimiter), ...SYSTEM_DIRECTORIES]
    .map((directory) => join(directory, tool))
    .find(isExecutable)

const isExecutable = (file: string): boolean => {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}
