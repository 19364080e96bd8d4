/**
 * The form of ids that Berth makes: a prefix that names the kind, and 20 letters of an alphabet of 32, which carry 100
 * random bits. The file has no schema: the supervisor makes ids without loading one.
 */

/** Crockford's alphabet, which has no letters that look alike. Its size divides 256, so each letter is as likely. */
const ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
const LETTERS = 20

/** Matches ids with this prefix, and nothing around them. */
export const idPattern = (prefix: string): RegExp =>
  new RegExp(`^${prefix}-[0-9a-hjkmnp-tv-z]{${LETTERS}}$`)

export const randomId = (prefix: string): string => {
  const bytes = crypto.getRandomValues(new Uint8Array(LETTERS))
  return `${prefix}-${Array.from(bytes, (byte) => ALPHABET[byte % ALPHABET.length]).join("")}`
}
