import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { rootCertificates } from "node:tls"
import { SYSTEM_BUNDLES } from "@berth/protocol/certificates"
import { certificatesIn } from "./pem.ts"

export interface SystemTrust {
  /** The file with all authorities that the system trusts. */
  readonly bundle: string
  /** The directory whose files hold the authorities that came with the system. */
  readonly delivered: string
}

const KNOWN: readonly SystemTrust[] = [
  { bundle: SYSTEM_BUNDLES.debian, delivered: "/usr/share/ca-certificates/mozilla" },
  // Used by Arch.
  { bundle: SYSTEM_BUNDLES.debian, delivered: "/usr/share/ca-certificates/trust-source" },
  { bundle: SYSTEM_BUNDLES.fedora, delivered: "/usr/share/pki/ca-trust-source" },
  { bundle: SYSTEM_BUNDLES.suse, delivered: "/usr/share/pki/trust" },
]

/** The paths of this host's authorities; undefined if additions cannot be told from the rest. */
export const findSystemTrust = (): SystemTrust | undefined =>
  KNOWN.find(({ bundle, delivered }) => existsSync(bundle) && existsSync(delivered))

/**
 * The authorities that need not be brought anywhere, as base64: node's, and those that came with the host's system.
 * Node has dropped some of the latter on purpose: they must not come back as additions.
 */
export const usualCertificates = (system: SystemTrust | undefined): ReadonlySet<string> =>
  new Set([...rootCertificates, ...deliveredWith(system)].flatMap(certificatesIn))

const deliveredWith = (system: SystemTrust | undefined): string[] => {
  if (system === undefined) return []
  const entries = readdirSync(system.delivered, { withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile())
  return files.map(({ name }) => readFileSync(join(system.delivered, name), "latin1"))
}
