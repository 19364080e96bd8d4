import { statSync } from "node:fs"
import { resolve } from "node:path"
import { readSource, type Source } from "./read-source.ts"
import { findSystemTrust, type SystemTrust, usualCertificates } from "./usual.ts"

/** The certificate authorities that a host trusts beside the usual ones. */
export interface HostCertificates {
  /** The certificates in PEM, each once, in an order that does not depend on where they were found. */
  readonly added: readonly string[]
  /** The files with these certificates. */
  readonly files: readonly string[]
  /** Certificates or files that are left out, why, and what to do about it. */
  readonly warnings: readonly string[]
}

/** The variables that tell the programs of a host which authorities to trust. */
const VARIABLES = [
  ...["NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "GIT_SSL_CAINFO", "CURL_CA_BUNDLE"],
  "REQUESTS_CA_BUNDLE",
]

export interface HostCertificatesOptions {
  /** The server's own environment. */
  readonly environment: Readonly<Record<string, string | undefined>>
  /** The clock that tells which certificates have expired. */
  readonly clock: { now(): number }
  /** The system's own certificates. Default: this host's. */
  readonly system?: SystemTrust | undefined
}

/**
 * Gives the host's authorities as they are now. The files are read again when one has changed; after a warning, each
 * time, since the state of a file does not show every repair: the owner of a link, the mode of a directory, the
 * system's own certificates.
 */
export const openHostCertificates = ({
  environment,
  clock,
  system = findSystemTrust(),
}: HostCertificatesOptions): (() => HostCertificates) => {
  const sources = sourcesOf(environment, system)
  let known: { readonly state: string; readonly found: HostCertificates } | undefined
  return () => {
    const state = sources.map(stateOf).join()
    if (known?.state === state) return known.found
    const found = readAll(sources, system, clock.now())
    known = found.warnings.length === 0 ? { state, found } : undefined
    return found
  }
}

/** The files to read, each once: variables often name the same file, or the system's. */
const sourcesOf = (
  environment: HostCertificatesOptions["environment"],
  system: SystemTrust | undefined,
): readonly Source[] => {
  const named = VARIABLES.flatMap((variable) => {
    const path = environment[variable]
    return path ? [{ path: resolve(path), variable }] : []
  })
  const all = [...named, ...(system ? [{ path: system.bundle, variable: undefined }] : [])]
  return all.filter(({ path }, at) => all.findIndex((other) => other.path === path) === at)
}

/** A text that changes with the file that a path leads to. */
const stateOf = ({ path }: Source): string => {
  try {
    const { dev, ino, size, ctimeMs } = statSync(path)
    return [dev, ino, size, ctimeMs].join(":")
  } catch (thrown) {
    return String((thrown as NodeJS.ErrnoException).code)
  }
}

const readAll = (
  sources: readonly Source[],
  system: SystemTrust | undefined,
  nowMs: number,
): HostCertificates => {
  let usual: ReadonlySet<string>
  try {
    usual = usualCertificates(system)
  } catch (thrown) {
    // If the usual certificates cannot be read, those that came with the system would pass for additions.
    const { message } = thrown as Error
    const warning = `the host's certificates are not taken over: ${message}; make that readable`
    return { added: [], files: [], warnings: [warning] }
  }
  const read = sources.map((source) => ({ ...readSource(source, usual, nowMs), path: source.path }))
  return {
    added: [...new Set(read.flatMap(({ added }) => added))].toSorted(),
    files: read.filter(({ added }) => added.length > 0).map(({ path }) => path),
    warnings: read.flatMap(({ warnings }) => warnings),
  }
}
