/** Replaces a key. No longer than the shortest key that is looked for, so that no text grows. */
export const HIDDEN = "[hidden]"

/** Keys shorter than this are not looked for: they are no secrets, and may be ordinary words. */
export const MIN_KEY_CHARS = 8

/** Removes keys from texts: their exact values, also as escaped in JSON. */
export class Redaction {
  readonly #secrets: readonly string[]
  readonly #pattern: RegExp | undefined

  constructor(keys: readonly string[]) {
    const long = keys.filter((key) => key.length >= MIN_KEY_CHARS)
    const forms = long.flatMap((key) => [key, JSON.stringify(key).slice(1, -1)])
    // Longest first, as one key may begin with another.
    this.#secrets = [...new Set(forms)].sort((a, b) => b.length - a.length)
    const alternatives = this.#secrets.map(RegExp.escape).join("|")
    this.#pattern = alternatives === "" ? undefined : new RegExp(alternatives, "g")
  }

  /** Redacts a text that may have been cut, so that its end may be the beginning of a key. */
  of(text: string): string {
    const at = this.#beginningOfKey(text)
    const isTold = at === undefined || text.length - at < MIN_KEY_CHARS
    return isTold ? this.#replaced(text) : this.#replaced(text.slice(0, at)) + HIDDEN
  }

  /** Redacts every text in a value. */
  within<Value>(value: Value): Value {
    if (this.#pattern === undefined) return value
    if (typeof value === "string") return this.of(value) as Value
    if (Array.isArray(value)) return value.map((each) => this.within(each)) as Value
    if (typeof value !== "object" || value === null) return value
    return Object.fromEntries(
      Object.entries(value).map(([key, each]) => [key, this.within(each)]),
    ) as Value
  }

  /** Splits a text that continues: `ready` is redacted and can be passed on, `held` may be the beginning of a key. */
  split(text: string): { readonly ready: string; readonly held: string } {
    const at = this.#beginningOfKey(text) ?? text.length
    return { ready: this.#replaced(text.slice(0, at)), held: text.slice(at) }
  }

  #replaced(text: string): string {
    return this.#pattern === undefined ? text : text.replace(this.#pattern, HIDDEN)
  }

  /** The position at which the text ends with the beginning of a key, unless that is part of a whole key. */
  #beginningOfKey(text: string): number | undefined {
    if (this.#pattern === undefined) return undefined
    const whole = [...text.matchAll(this.#pattern)].map((match) => ({
      from: match.index,
      to: match.index + match[0].length,
    }))
    const longest = this.#secrets[0]?.length ?? 0
    for (let at = Math.max(0, text.length - longest + 1); at < text.length; at++) {
      if (whole.some(({ from, to }) => from < at && at < to)) continue
      const rest = text.slice(at)
      if (this.#secrets.some((secret) => secret.length > rest.length && secret.startsWith(rest)))
        return at
    }
    return undefined
  }
}
