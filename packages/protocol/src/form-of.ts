import type { z } from "zod"
import type { $ZodCheck, $ZodChecks, $ZodType, $ZodTypes } from "zod/v4/core"
import type { Bounds, Form, FormOf, Pattern, Rule } from "./form.ts"
import { listFacts } from "./list.ts"

/**
 * The form of a schema as data. It accepts a value exactly where the schema accepts it and leaves it as it is: a key
 * with a default is therefore required. Throws at a schema of a kind that has no such form.
 */
export const formOf = <Schema extends z.ZodType>(schema: Schema): FormOf<z.output<Schema>> => {
  const known = forms.get(schema)
  if (known !== undefined) return known
  const form: Form = { ...plainOf(schema), ...rulesOf(schema) }
  forms.set(schema, form)
  schemas.set(form, schema)
  return form
}

/** The schema that a form was made of; undefined: it is part of another's. */
export const schemaOf = (form: Form): z.ZodType | undefined => schemas.get(form)

const forms = new WeakMap<z.ZodType, Form>()
const schemas = new WeakMap<Form, z.ZodType>()

const inner = (schema: $ZodType): Form => formOf(schema as z.ZodType)

const plainOf = (schema: z.ZodType): Form => {
  const list = listFacts(schema)
  if (list !== undefined)
    return { kind: "list", element: inner(list.element), min: list.min, max: list.max }
  const { def } = (schema as unknown as $ZodTypes)._zod
  switch (def.type) {
    case "string":
      if ("format" in def) throw new Error(`a text of the format ${def.format} has no form`)
      return { kind: "text", ...boundsOf(schema), ...patternsOf(schema) }
    case "number": {
      const format = "format" in def ? def.format : undefined
      if (format !== undefined && format !== "safeint")
        throw new Error(`a number of the format ${format} has no form`)
      return { kind: "number", whole: format === "safeint", ...boundsOf(schema) }
    }
    case "boolean":
      return { kind: "flag" }
    case "literal":
      return { kind: "value", values: def.values }
    case "enum":
      return { kind: "value", values: Object.values(def.entries) }
    case "array":
      return { kind: "list", element: inner(def.element), ...boundsOf(schema) }
    case "record":
      return { kind: "map", keys: inner(def.keyType), values: inner(def.valueType) }
    case "object":
      return objectOf(def.shape, def.catchall)
    case "union":
      return unionOf(def)
    case "nullable":
      return { kind: "either", forms: [inner(def.innerType), { kind: "value", values: [null] }] }
    case "default":
    case "prefault":
      return inner(def.innerType)
    default:
      throw new Error(`a schema of type ${def.type} has no form`)
  }
}

const objectOf = (shape: Readonly<Record<string, $ZodType>>, rest: $ZodType | undefined): Form => {
  if (rest?._zod.def.type !== "never") throw new Error("an object with further keys has no form")
  const required: Record<string, Form> = {}
  const optional: Record<string, Form> = {}
  for (const [key, each] of Object.entries(shape)) {
    const { def } = (each as $ZodTypes)._zod
    if (def.type === "optional") optional[key] = inner(def.innerType)
    else required[key] = inner(each)
  }
  return { kind: "object", required, optional }
}

interface UnionDef {
  readonly options: readonly $ZodType[]
  readonly discriminator?: string
}

const unionOf = ({ options, discriminator }: UnionDef): Form => {
  if (discriminator === undefined) return { kind: "either", forms: options.map(inner) }
  const forms = options.flatMap((option) => {
    const form = inner(option)
    const tags = option._zod.propValues?.[discriminator] ?? []
    return [...tags].map((tag) => [String(tag), form] as const)
  })
  return { kind: "tagged", tag: discriminator, forms: Object.fromEntries(forms) }
}

const checksOf = (schema: z.ZodType): $ZodChecks["_zod"]["def"][] =>
  (schema._zod.def.checks ?? []).map(
    (check) => (check as unknown as $ZodChecks)._zod.def,
  ) satisfies unknown[]

const boundsOf = (schema: z.ZodType): Bounds => {
  let bounds: Bounds = {}
  for (const check of checksOf(schema)) {
    if (check.check === "min_length") bounds = { ...bounds, min: check.minimum }
    else if (check.check === "max_length") bounds = { ...bounds, max: check.maximum }
    else if (check.check === "greater_than" || check.check === "less_than") {
      if (!check.inclusive) throw new Error("a number above or below another has no form")
      const key = check.check === "greater_than" ? "min" : "max"
      bounds = { ...bounds, [key]: Number(check.value) }
    }
  }
  return bounds
}

const patternsOf = (schema: z.ZodType): { patterns?: readonly Pattern[] } => {
  const patterns = checksOf(schema).flatMap((check) =>
    check.check === "string_format" && check.pattern !== undefined
      ? [{ matches: check.pattern, says: wordsOf(check) }]
      : [],
  )
  return patterns.length === 0 ? {} : { patterns }
}

/** Checks that a form has a place for. */
const KNOWN: ReadonlySet<string> = new Set([
  ...["min_length", "max_length", "greater_than", "less_than", "custom"],
])

const rulesOf = (schema: z.ZodType): { rules?: readonly Rule[] } => {
  if (listFacts(schema) !== undefined) return {}
  const rules: Rule[] = []
  for (const { _zod } of (schema._zod.def.checks ?? []) as $ZodCheck[]) {
    const check = _zod.def as { check: string; format?: string; fn?: Rule["holds"] }
    if (check.fn !== undefined) rules.push({ holds: check.fn, says: wordsOf(_zod.def) })
    else if (!KNOWN.has(check.check) && check.format !== "regex")
      throw new Error(`the check ${check.format ?? check.check} has no form`)
  }
  return rules.length === 0 ? {} : { rules }
}

const wordsOf = ({ error }: { error?: unknown }): string => {
  const words: unknown = typeof error === "function" ? error({}) : undefined
  return typeof words === "string" ? words : "has the wrong form"
}
