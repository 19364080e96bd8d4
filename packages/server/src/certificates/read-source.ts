import type { X509Certificate } from "node:crypto"
import { readOwned } from "@berth/local/owned/read"
import { BerthError } from "@berth/protocol/errors"
import { certificatesIn, parseCertificate } from "./pem.ts"

export interface Source {
  readonly path: string
  /** The variable that names the file; undefined for the system's own list. */
  readonly variable: string | undefined
}

/** The most that is read of a file. The list of a whole system takes a quarter of this. */
export const MAX_SOURCE_BYTES = 1024 * 1024

/** A warning names at most this many certificates. */
const MAX_NAMED = 3

/**
 * The certificates of a file except the usual and the expired ones, in PEM, and warnings about those left out. Never
 * fails.
 */
export const readSource = (
  source: Source,
  usual: ReadonlySet<string>,
  nowMs: number,
): { added: string[]; warnings: string[] } => {
  const { path, variable } = source
  const file = variable === undefined ? path : `${path}, which ${variable} names,`
  try {
    const found = certificatesIn(textOf(source))
    if (found.length === 0) throw new Unusable("it has no certificate in PEM form", TO_PEM)
    const parsed = found.filter((each) => !usual.has(each)).map(parseCertificate)
    const whole = parsed.filter((certificate) => certificate !== undefined)
    const expired = whole.filter(({ validToDate }) => validToDate.getTime() <= nowMs)
    const broken = parsed.length - whole.length
    const warnings: string[] = []
    if (broken > 0)
      warnings.push(`${broken} of the certificates of ${file} cannot be read; mend the file`)
    // No warning for the system's list, which keeps expired certificates for years.
    if (expired.length > 0 && variable !== undefined)
      warnings.push(
        `${expired.length} of the certificates of ${file} have expired; ${renew(expired)}`,
      )
    return { added: whole.filter((each) => !expired.includes(each)).map(String), warnings }
  } catch (thrown) {
    const { message, mend } = unusable(thrown, source)
    const warning = `the certificates of ${file} are not taken over: ${message}; ${mend}`
    return { added: [], warnings: [warning] }
  }
}

const renew = (expired: readonly X509Certificate[]): string => {
  const named = expired.slice(0, MAX_NAMED).map(({ subject, validToDate }) => {
    const [until] = validToDate.toISOString().split("T")
    return `${subject.replaceAll("\n", ", ")} on ${until}`
  })
  return `put their successors there: ${named.join("; ")}`
}

class Unusable extends Error {
  readonly mend: string
  constructor(message: string, mend: string) {
    super(message)
    this.mend = mend
  }
}

const TO_PEM = "give it one or several (openssl x509 -inform der makes PEM of DER)"

const textOf = (source: Source): string => {
  const file = readOwned(source.path, { followLast: true, maxBytes: MAX_SOURCE_BYTES })
  if (file === undefined) throw new Unusable("there is no such file", mendOf(source))
  return file.text
}

const mendOf = ({ variable }: Source): string =>
  variable === undefined
    ? "mend the file"
    : `put one there, or start the server without ${variable}`

const unusable = (thrown: unknown, source: Source): Unusable => {
  if (thrown instanceof Unusable) return thrown
  const { message } = thrown as Error
  const mend = thrown instanceof BerthError ? thrown.details.mend : undefined
  return new Unusable(message, typeof mend === "string" ? mend : mendOf(source))
}
