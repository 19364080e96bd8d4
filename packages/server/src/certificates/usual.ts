import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { rootCertificates } from "node:tls"
import { SYSTEM_BUNDLES } from "@berth/protocol/certificates"
import { certificatesIn } from "./pem.ts"

export interface SystemTrust {
  /** All authorities that the system trusts. */
  readonly bundle: string
  /** Those of them that came with the system, in the files directly in this directory. */
  readonly delivered: string
}

const KNOWN: readonly SystemTrust[] = [
  { bundle: SYSTEM_BUNDLES.debian, delivered: "/usr/share/ca-certificates/mozilla" },
  // Arch.
  { bundle: SYSTEM_BUNDLES.debian, delivered: "/usr/share/ca-certificates/trust-source" },
  { bundle: SYSTEM_BUNDLES.fedora, delivered: "/usr/share/pki/ca-trust-source" },
  { bundle: SYSTEM_BUNDLES.suse, delivered: "/usr/share/pki/trust" },
]

/** Where this host keeps its authorities; undefined: what is added to it cannot be told from the rest. */
export const findSystemTrust = (): SystemTrust | undefined =>
  KNOWN.find(({ bundle, delivered }) => existsSync(bundle) && existsSync(delivered))

/**
 * The authorities that need not be brought anywhere, as base64: node's, and those that came with the host's system. Of the
 * latter, node has dropped some on purpose: they must not come back as additions.
 */
export const usualCertificates = (system: SystemTrust | undefined): ReadonlySet<string> =>
  new Set([...rootCertificates, ...deliveredWith(system)].flatMap(certificatesIn))

const deliveredWith = (system: SystemTrust | undefined): string[] => {
  if (system === undefined) return []
  const entries = readdirSync(system.delivered, { withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile())
  return files.map(({ name }) => readFileSync(join(system.delivered, name), "latin1"))
}
