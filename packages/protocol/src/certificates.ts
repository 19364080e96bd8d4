/**
 * The files by which a sandbox gets the certificate authorities that its host has beside the usual ones. The names
 * stand apart from the schemas, for the supervisor's sake.
 */

/** The directory of the files: in memory, readable for all. The supervisor writes it. */
export const CERTIFICATES_TARGET = "/run/berth-certificates"

/** The names of the files. */
export const CERTIFICATE_FILES = {
  /** The host's additions alone, for programs that have a list of their own and add to it. */
  added: "added.pem",
  /**
   * The authorities of the sandbox's system and the additions, for programs that take one list in the place of theirs.
   */
  all: "all.pem",
} as const

/** The files in which systems keep the list of all authorities that they trust. */
export const SYSTEM_BUNDLES = {
  /** The file of Ubuntu, Arch and Alpine as well. */
  debian: "/etc/ssl/certs/ca-certificates.crt",
  fedora: "/etc/pki/tls/certs/ca-bundle.crt",
  suse: "/etc/ssl/ca-bundle.pem",
} as const
