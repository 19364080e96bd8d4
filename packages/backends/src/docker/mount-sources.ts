import { readFile, realpath, stat } from "node:fs/promises"
import { BerthError } from "@berth/protocol/errors"
import { isWithin } from "../within.ts"

/** File systems that are interfaces to the host's kernel, not files. */
const KERNEL_FILE_SYSTEMS =
  /^(autofs|binfmt_misc|bpf|cgroup2?|configfs|debugfs|devpts|devtmpfs|efivarfs|fusectl|hugetlbfs|mqueue|nsfs|proc|pstore|securityfs|selinuxfs|sysfs|tracefs)$/

/** Refuses a source that is no directory, or that is reached only through a link. */
export const checkSource = async (source: string, path: string): Promise<void> => {
  const leadsTo = await realpath(source).catch((cause: Error) => {
    const details = { path, source, engineSaid: cause.message }
    throw refused("the mount's source cannot be opened", details, cause)
  })
  if (leadsTo !== source) {
    throw refused("the mount's source leads through a link", { path, source, leadsTo })
  }
  if (!(await stat(source)).isDirectory()) {
    throw refused("the mount's source is not a directory", { path, source })
  }
}

/** Refuses a directory of the host that would open Berth's own data, or the kernel, to a sandbox. */
export const checkPlace = async (
  source: string,
  path: string,
  keepOut: readonly string[],
): Promise<void> => {
  const touches = (place: string) => isWithin(place, source) || isWithin(source, place)
  const own = keepOut.find(touches)
  if (own !== undefined) {
    throw refused("the mount's source holds Berth's own data", { path, source, dataDirectory: own })
  }
  const kernel = (await kernelMounts()).find(touches)
  if (kernel !== undefined) {
    throw refused("the mount's source holds the kernel's own files", {
      path,
      source,
      mounted: kernel,
    })
  }
}

const kernelMounts = async (): Promise<string[]> =>
  (await readFile("/proc/self/mountinfo", "utf8"))
    .split("\n")
    .map((line) => /^\S+ \S+ \S+ \S+ (\S+) .*? - (\S+) /.exec(line))
    .filter((match) => KERNEL_FILE_SYSTEMS.test(match?.[2] ?? ""))
    .map((match) => plainPath(match?.[1] ?? ""))

/** The kernel writes a space as \040. */
const plainPath = (path: string): string =>
  path.replace(/\\(\d{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)))

const refused = (message: string, details: Readonly<Record<string, unknown>>, cause?: unknown) =>
  new BerthError("backend.mount_invalid", message, { details, cause })
