/**
 * How a sandbox gets the certificate authorities that its host has beside the usual ones. The names stand apart from the
 * schemas, for the supervisor's sake.
 */

/** Where the supervisor writes them, in memory, readable for all. */
export const CERTIFICATES_TARGET = "/run/berth-certificates"

/** What lies there, by name. */
export const CERTIFICATE_FILES = {
  /** The host's additions alone, for programs that have a list of their own and add to it. */
  added: "added.pem",
  /** What the sandbox's system trusts, and the additions: for programs that take one list in the place of theirs. */
  all: "all.pem",
} as const

/** Where systems keep the list of all authorities that they trust. */
export const SYSTEM_BUNDLES = {
  /** Also of Ubuntu, Arch and Alpine. */
  debian: "/etc/ssl/certs/ca-certificates.crt",
  fedora: "/etc/pki/tls/certs/ca-bundle.crt",
  suse: "/etc/ssl/ca-bundle.pem",
} as const
