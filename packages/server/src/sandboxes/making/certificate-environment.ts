import { CERTIFICATE_FILES, CERTIFICATES_TARGET } from "@berth/protocol/certificates"

const ADDED = `${CERTIFICATES_TARGET}/${CERTIFICATE_FILES.added}`
const ALL = `${CERTIFICATES_TARGET}/${CERTIFICATE_FILES.all}`

/** Tells the programs of a sandbox of the certificate authorities that its host has beside the usual ones. */
export const CERTIFICATE_ENVIRONMENT: Readonly<Record<string, string>> = {
  /** Node (so npm) and Bun add this file to their built-in list. */
  NODE_EXTRA_CA_CERTS: ADDED,
  // Programs other than Node and Bun read the file instead of the system's list.
  /** OpenSSL, and programs that follow its variable: Python's ssl, Ruby, Go, uv, most of Rust. */
  SSL_CERT_FILE: ALL,
  GIT_SSL_CAINFO: ALL,
  CURL_CA_BUNDLE: ALL,
  /** Python's requests, and pip. */
  REQUESTS_CA_BUNDLE: ALL,
  CARGO_HTTP_CAINFO: ALL,
}
