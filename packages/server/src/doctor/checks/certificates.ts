import { openHostCertificates } from "../../certificates/host-certificates.ts"
import type { Check } from "../tools/check.ts"

export const certificates: Check = {
  name: "certificates",
  why: "Sandboxes with an open network trust the certificate authorities that this host has beside the usual ones, as a company's proxy needs.",
  probe: async ({ environment = {} }) => {
    const { added, files, warnings } = openHostCertificates({ environment, clock: Date })()
    const from = files.length === 0 ? "" : `, from ${files.join(", ")}`
    const found = `${added.length || "no"} authorities beside the usual ones${from}`
    const details = { added: added.length, files: [...files] }
    if (warnings.length === 0) return { status: "ok", found, details }
    return { status: "degraded", found, fix: warnings.join("; "), details }
  },
}
