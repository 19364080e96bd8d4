/** The text that replaces a secret in a log. */
export const REDACTED = "[redacted]"

/** Values that must never be written, wherever in a text they stand. */
export class Secrets {
  #values: string[] = []

  /** Scrubs this value from now on, as it is and as it looks inside JSON. */
  add(value: string): void {
    const forms = [value, JSON.stringify(value).slice(1, -1)]
    const all = new Set([...this.#values, ...forms].filter((form) => form !== ""))
    // Longest first, so that a secret that contains another one is replaced as a whole.
    this.#values = [...all].sort((a, b) => b.length - a.length)
  }

  /** Replaces known values, credentials of HTTP and credentials in URLs. Text that is JSON stays JSON. */
  scrub(text: string): string {
    const known = this.#values.reduce((rest, value) => rest.replaceAll(value, REDACTED), text)
    return known
      .replaceAll(HTTP_CREDENTIALS, `$1 ${REDACTED}`)
      .replaceAll(URL_CREDENTIALS, `$1${REDACTED}@`)
  }
}

const HTTP_CREDENTIALS = /\b(bearer|basic(?= +[\w+/=-]{8})) +[\w.~+/=-]+/gi
const URL_CREDENTIALS = /\b([a-z][a-z0-9+.-]{0,20}:\/\/)[^\s/?#"'\\@]+@/gi
