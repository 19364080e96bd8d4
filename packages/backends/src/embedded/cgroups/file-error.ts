import { BerthError, type ErrorCode } from "@berth/protocol/errors"

/** The kernel's code of a failed file operation: `EACCES`. */
const fileErrorCode = (thrown: unknown): string | undefined =>
  thrown instanceof Error && "code" in thrown && typeof thrown.code === "string"
    ? thrown.code
    : undefined

export const isFileError = (thrown: unknown, ...codes: readonly string[]): boolean =>
  codes.includes(fileErrorCode(thrown) ?? "")

type Meanings = Readonly<Record<string, ErrorCode>>

/** The meanings of the kernel's refusals to make, change or read a cgroup. */
const MEANINGS: Meanings = {
  EACCES: "backend.cgroups_unavailable",
  EPERM: "backend.cgroups_unavailable",
  EROFS: "backend.cgroups_unavailable",
  // A v1 cpuset without CPUs takes no process; a hierarchy may bound how many cgroups are below it.
  ENOSPC: "backend.cgroups_exhausted",
  EAGAIN: "backend.cgroups_exhausted",
  ENOMEM: "backend.cgroups_exhausted",
  ENOENT: "backend.unknown_sandbox",
  ENODEV: "backend.unknown_sandbox",
}

/**
 * The typed error of a refused file operation, with the kernel's own words.
 * @param meanings the meanings of codes for this operation in particular
 */
export const cgroupError = (
  thrown: unknown,
  { action, path, meanings = {} }: { action: string; path: string; meanings?: Meanings },
): BerthError => {
  if (thrown instanceof BerthError) return thrown
  const code = fileErrorCode(thrown) ?? ""
  const engineSaid = thrown instanceof Error ? thrown.message : String(thrown)
  return new BerthError(
    { ...MEANINGS, ...meanings }[code] ?? "backend.cgroups_unavailable",
    `cannot ${action} at ${path}: ${engineSaid}`,
    { details: { path, errno: code, engineSaid }, cause: thrown },
  )
}
