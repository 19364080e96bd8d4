import { X509Certificate } from "node:crypto"

const BLOCK = /-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]+)-----END CERTIFICATE-----/g

/**
 * The certificates of a text in PEM form, as base64 in one line. Nothing else of the text is taken, above all no key.
 */
export const certificatesIn = (text: string): string[] =>
  [...text.matchAll(BLOCK)].map(([, body = ""]) => body.replaceAll(/\s/g, ""))

/** Parses a certificate; undefined if it is none. */
export const parseCertificate = (base64: string): X509Certificate | undefined => {
  try {
    return new X509Certificate(Buffer.from(base64, "base64"))
  } catch {
    return undefined
  }
}
