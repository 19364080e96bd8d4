/** Words in the names of secrets: `apiKey`, `x-api-key`, `GITHUB_TOKEN`, `clientSecret`. */
const SECRET_WORDS =
  "password|passwd|passphrase|secret|api[-_]?key|access[-_]?key|private[-_]?key|credential|authorization"

/** Whether a field of this name holds a secret. */
export const isSecretKey = (key: string): boolean => SECRET_KEY.test(key)
const SECRET_KEY = new RegExp(`${SECRET_WORDS}|(token|cookie)s?$`, "i")

/** Whether a field of this name holds environment variables, of which only the names may be told. */
export const isEnvironmentKey = (key: string): boolean => ENVIRONMENT_KEY.test(key)
const ENVIRONMENT_KEY = /^env$|^environ(ment)?$|[a-z_-]env$/i

/**
 * Matches `password=…`, `Authorization: Bearer …` and `"apiKey": "…"` inside a text, as in commands and quoted replies.
 * Text before the word is not matched and repetitions are bounded, so that a long text costs no more than its length.
 */
export const ASSIGNED_SECRET = new RegExp(
  `((?:${SECRET_WORDS}|token|cookie)[\\w-]{0,40}\\\\?["']?\\s{0,4}[:=]\\s{0,4})` +
    `(?:(\\\\?["'])[^"'\\\\]+|(?:(?:bearer|basic|token)\\s{1,4})?[^\\s"'\\\\&,;}]+)`,
  "gi",
)
