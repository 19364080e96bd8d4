import { z } from "zod"

/** The degree to which a host serves one need: fully, with something lost, or not at all. */
export const DoctorStatus = z.enum(["ok", "degraded", "missing"])
export type DoctorStatus = z.infer<typeof DoctorStatus>

export const DoctorCheckName = z.enum([
  "privileges",
  "node",
  "git",
  "oci-runtime",
  "tini",
  "conmon",
  "cgroups",
  "user-namespaces",
  "overlay",
  "mapped-ids",
  "iproute2",
  "firewall",
  "docker",
  "certificates",
  "disk",
])
export type DoctorCheckName = z.infer<typeof DoctorCheckName>

/** The facts behind `found`, for programs. */
export const DoctorDetails = z.record(
  z.string(),
  z.union([z.string(), z.number(), z.boolean(), z.array(z.string())]),
)
export type DoctorDetails = z.infer<typeof DoctorDetails>

const fine = z.object({ status: z.literal("ok"), found: z.string(), details: DoctorDetails })
const lacking = z.object({
  status: z.enum(["degraded", "missing"]),
  found: z.string(),
  /** The command that repairs it; where no single command does, the step to take. */
  fix: z.string().min(1),
  details: DoctorDetails,
})
/** The finding of a check. It has a fix exactly when something is lacking. */
export const DoctorFinding = z.discriminatedUnion("status", [fine, lacking])
export type DoctorFinding = z.infer<typeof DoctorFinding>

const subject = {
  name: DoctorCheckName,
  /** Why Berth wants it, in one sentence. */
  why: z.string(),
}
export const DoctorCheck = z.discriminatedUnion("status", [
  fine.extend(subject),
  lacking.extend(subject),
])
export type DoctorCheck = z.infer<typeof DoctorCheck>

/** The output of `berth doctor --json`. */
export const DoctorReport = z.object({
  /** The worst status of all checks. */
  status: DoctorStatus,
  checks: z.array(DoctorCheck),
})
export type DoctorReport = z.infer<typeof DoctorReport>
