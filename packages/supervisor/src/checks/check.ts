import { BerthError } from "@berth/protocol/errors"
import type {
  Bounds,
  Form,
  FormOf,
  ListForm,
  MapForm,
  ObjectForm,
  TextForm,
} from "@berth/protocol/form"

/**
 * Checks a value against a form, and returns what is wrong and where; undefined: nothing is. The supervisor checks by
 * forms, since the schema library would take as long to load as node itself.
 */
export const problemIn = (form: Form, value: unknown, at: string): string | undefined => {
  const problem = plainProblem(form, value, at)
  if (problem !== undefined) return problem
  const broken = form.rules?.find(({ holds }) => !holds(value as never))
  return broken && `${at} ${broken.says}`
}

/** The value as what the form says it is. Throws if it is not. */
export const checked = <Value>(form: FormOf<Value>, value: unknown, at: string): Value => {
  const problem = problemIn(form, value, at)
  if (problem !== undefined) throw new BerthError("input.invalid", problem)
  return value as Value
}

const plainProblem = (form: Form, value: unknown, at: string): string | undefined => {
  switch (form.kind) {
    case "text":
      return inText(form, value, at)
    case "number":
      if (!(form.whole ? Number.isSafeInteger(value) : Number.isFinite(value)))
        return `${at} is not a ${form.whole ? "whole " : ""}number`
      return outside(form, value as number, at, "number")
    case "flag":
      return typeof value === "boolean" ? undefined : `${at} is neither true nor false`
    case "value":
      return form.values.includes(value) ? undefined : `${at} is none of ${form.values.join(", ")}`
    case "list":
      return inList(form, value, at)
    case "map":
      return inMap(form, value, at)
    case "object":
      return inObject(form, value, at)
    case "tagged": {
      const tag = isRecord(value) ? value[form.tag] : undefined
      const tagged =
        typeof tag === "string" && Object.hasOwn(form.forms, tag) ? form.forms[tag] : undefined
      return tagged === undefined
        ? `${at}.${form.tag} is none of ${Object.keys(form.forms).join(", ")}`
        : problemIn(tagged, value, at)
    }
    case "either":
      return inEither(form.forms, value, at)
  }
}

const inText = (form: TextForm, value: unknown, at: string): string | undefined => {
  if (typeof value !== "string") return `${at} is not text`
  const problem = outside(form, value.length, at, "length")
  if (problem !== undefined) return problem
  const broken = form.patterns?.find(({ matches }) => !matches.test(value))
  return broken && `${at} ${broken.says}`
}

const inList = (form: ListForm, value: unknown, at: string): string | undefined => {
  if (!Array.isArray(value)) return `${at} is not a list`
  const problem = outside(form, value.length, at, "length")
  return (
    problem ??
    firstProblem(value, (each, place) => problemIn(form.element, each, `${at}[${place}]`))
  )
}

const inMap = (form: MapForm, value: unknown, at: string): string | undefined => {
  if (!isRecord(value)) return `${at} is not an object`
  return firstProblem(Object.keys(value), (key) =>
    // The schema library drops this key.
    key === "__proto__"
      ? `${at} names ${key}`
      : (problemIn(form.keys, key, `${at}, in the name ${JSON.stringify(key)},`) ??
        problemIn(form.values, value[key], `${at}.${key}`)),
  )
}

const inObject = (form: ObjectForm, value: unknown, at: string): string | undefined => {
  if (!isRecord(value)) return `${at} is not an object`
  const { required, optional } = form
  const missing = Object.keys(required).find((key) => !Object.hasOwn(value, key))
  if (missing !== undefined) return `${at}.${missing} is missing`
  return firstProblem(Object.keys(value), (key) => {
    const known = Object.hasOwn(required, key)
      ? required[key]
      : Object.hasOwn(optional, key)
        ? optional[key]
        : undefined
    return known === undefined
      ? `${at}.${key} is unknown`
      : problemIn(known, value[key], `${at}.${key}`)
  })
}

/** Names the problem by the form that was meant, where the value's type tells which. */
const inEither = (forms: readonly Form[], value: unknown, at: string): string | undefined => {
  const problems = forms.map((form) => problemIn(form, value, at))
  if (problems.includes(undefined)) return undefined
  const meant = typeof value === "string" ? "text" : isRecord(value) ? "object" : undefined
  const alike = forms.flatMap(({ kind }, place) => (kind === meant ? [problems[place]] : []))
  return alike.length === 1 ? alike[0] : `${at} has no known form`
}

const outside = (
  { min = -Infinity, max = Infinity }: Bounds,
  size: number,
  at: string,
  what: "number" | "length",
): string | undefined => {
  if (size >= min && size <= max) return undefined
  if (what === "length") return size < min ? `${at} is too short` : `${at} is too long`
  return `${at} is not from ${min} to ${max}`
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const firstProblem = <Value>(
  values: readonly Value[],
  problemOf: (value: Value, place: number) => string | undefined,
): string | undefined => {
  for (const [place, value] of values.entries()) {
    const problem = problemOf(value, place)
    if (problem !== undefined) return problem
  }
  return undefined
}
