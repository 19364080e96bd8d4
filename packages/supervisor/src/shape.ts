/**
 * Checks a value's form, and returns what is wrong and where; undefined: it is right. The supervisor uses such checks
 * at its start, since the schema library would take as long to load as node itself.
 */
export type Check = (value: unknown, at: string) => string | undefined

export const text: Check = (value, at) =>
  typeof value === "string" ? undefined : `${at} is not text`

export const flag: Check = (value, at) =>
  typeof value === "boolean" ? undefined : `${at} is neither true nor false`

export const wholeNumber: Check = (value, at) =>
  Number.isSafeInteger(value) ? undefined : `${at} is not a whole number`

export const textLike =
  (pattern: RegExp): Check =>
  (value, at) =>
    typeof value === "string" && pattern.test(value) ? undefined : `${at} has the wrong form`

export const oneOf =
  (...values: readonly string[]): Check =>
  (value, at) =>
    values.some((each) => each === value) ? undefined : `${at} is none of ${values.join(", ")}`

export const listOf =
  (check: Check, least = 0): Check =>
  (value, at) => {
    if (!Array.isArray(value)) return `${at} is not a list`
    if (value.length < least) return `${at} is too short`
    return firstWrong(value.map((each, place) => check(each, `${at}[${place}]`)))
  }

export const mapOf =
  (check: Check): Check =>
  (value, at) => {
    if (!isRecord(value)) return `${at} is not an object`
    return firstWrong(Object.entries(value).map(([key, each]) => check(each, `${at}.${key}`)))
  }

/** Accepts exactly these keys. Those in `optional` may be missing. */
export const object =
  (
    required: Readonly<Record<string, Check>>,
    optional: Readonly<Record<string, Check>> = {},
  ): Check =>
  (value, at) => {
    if (!isRecord(value)) return `${at} is not an object`
    const missing = Object.keys(required).find((key) => !Object.hasOwn(value, key))
    if (missing !== undefined) return `${at}.${missing} is missing`
    const known = { ...required, ...optional }
    return firstWrong(
      Object.entries(value).map(([key, each]) =>
        Object.hasOwn(known, key) ? known[key]?.(each, `${at}.${key}`) : `${at}.${key} is unknown`,
      ),
    )
  }

/** Accepts several forms, told apart by the value of `key`. */
export const kinds =
  (key: string, forms: Readonly<Record<string, Check>>): Check =>
  (value, at) => {
    const kind = isRecord(value) ? value[key] : undefined
    const form = typeof kind === "string" && Object.hasOwn(forms, kind) ? forms[kind] : undefined
    return form === undefined ? `${at}.${key} is none of ${Object.keys(forms)}` : form(value, at)
  }

/** Accepts a value that has one of the forms. */
export const either =
  (...forms: readonly Check[]): Check =>
  (value, at) =>
    forms.some((form) => form(value, at) === undefined) ? undefined : `${at} has no known form`

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const firstWrong = (problems: readonly (string | undefined)[]): string | undefined =>
  problems.find((problem) => problem !== undefined)
