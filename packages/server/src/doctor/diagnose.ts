import type { DoctorCheck, DoctorFinding, DoctorReport, DoctorStatus } from "@berth/protocol/doctor"
import { BerthError } from "@berth/protocol/errors"
import { certificates } from "./checks/certificates.ts"
import { cgroups } from "./checks/cgroups.ts"
import { conmon } from "./checks/conmon.ts"
import { disk } from "./checks/disk.ts"
import { docker } from "./checks/docker.ts"
import { firewall } from "./checks/firewall.ts"
import { git } from "./checks/git.ts"
import { iproute2 } from "./checks/iproute2.ts"
import { mappedIds } from "./checks/mapped-ids.ts"
import { node } from "./checks/node.ts"
import { ociRuntime } from "./checks/oci-runtime.ts"
import { overlay } from "./checks/overlay.ts"
import { privileges } from "./checks/privileges.ts"
import { tini } from "./checks/tini.ts"
import { userNamespaces } from "./checks/user-namespaces.ts"
import { withDeadline } from "./deadline.ts"
import type { Check, DoctorHost } from "./tools/check.ts"
import { oneLine } from "./tools/one-line.ts"

/** All checks, in the order in which they are reported. */
const CHECKS: readonly Check[] = [
  privileges,
  node,
  git,
  ociRuntime,
  tini,
  conmon,
  cgroups,
  userNamespaces,
  overlay,
  mappedIds,
  iproute2,
  firewall,
  docker,
  certificates,
  disk,
]

/** Runs every check at once. Rejects only when the caller cancels. */
export const diagnose = async (
  host: DoctorHost,
  signal: AbortSignal,
  checks: readonly Check[] = CHECKS,
): Promise<DoctorReport> => {
  const findings = await Promise.all(checks.map((check) => examine(check, host, signal)))
  if (signal.aborted) {
    throw new BerthError("cancelled", "the diagnosis was cancelled", { cause: signal.reason })
  }
  return { status: worst(findings), checks: findings }
}

const examine = async (
  check: Check,
  host: DoctorHost,
  signal: AbortSignal,
): Promise<DoctorCheck> => {
  const { name, why } = check
  try {
    const finding = await withDeadline((limited) => check.probe(host, limited), signal)
    return { name, why, ...asFarAsUsed(finding, check, host) }
  } catch (thrown) {
    return { name, why, ...undecided(thrown) }
  }
}

const asFarAsUsed = (
  finding: DoctorFinding,
  { onlyFor }: Check,
  host: DoctorHost,
): DoctorFinding =>
  finding.status === "missing" && onlyFor !== undefined && onlyFor !== (host.backend ?? "embedded")
    ? { ...finding, status: "degraded" }
    : finding

/** The finding of a check that could not be made. It says nothing about the host, so it must not say "missing". */
const undecided = (thrown: unknown): DoctorFinding => ({
  status: "degraded",
  found: `could not be checked: ${oneLine(thrown instanceof Error ? thrown.message : String(thrown))}`,
  fix: "run `berth doctor` again when the host is less busy",
  details: {},
})

const WORST_FIRST: readonly DoctorStatus[] = ["missing", "degraded", "ok"]

const worst = (checks: readonly DoctorCheck[]): DoctorStatus =>
  WORST_FIRST.find((status) => checks.some((check) => check.status === status)) ?? "ok"
