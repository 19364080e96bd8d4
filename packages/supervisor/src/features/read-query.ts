import { BerthError } from "@berth/protocol/errors"
import type { Form, FormOf } from "@berth/protocol/form"
import { checked } from "../checks/check.ts"

/** Reads a query as `fileQuery` of the protocol writes it. Throws if it does not have the form. */
export const readQuery = <Query>(query: URLSearchParams, form: FormOf<Query>): Query => {
  if (form.kind !== "object") throw new TypeError("a query is an object")
  const forms: Readonly<Record<string, Form>> = { ...form.required, ...form.optional }
  const values: Record<string, unknown> = {}
  for (const written of new Set(query.keys())) {
    const texts = query.getAll(written)
    const isBytes = written.endsWith("64")
    const key = isBytes ? written.slice(0, -"64".length) : written
    const known = Object.hasOwn(forms, key) ? forms[key] : undefined
    if (known === undefined || (isBytes && known.kind !== "either"))
      throw invalid(`${written} is unknown here`)
    if (Object.hasOwn(values, key) || (texts.length > 1 && known.kind !== "list"))
      throw invalid(`${key} is given more than once`)
    values[key] = isBytes ? { base64: texts[0] } : read(known, key, texts)
  }
  return checked(form, values, "query")
}

/** The value that the texts stand for. What stands for none is left to the check of the form. */
const read = (form: Form, key: string, texts: readonly string[]): unknown => {
  const [text = ""] = texts
  switch (form.kind) {
    case "number":
      return key === "mode" ? octal(text) : decimal(text)
    case "flag":
      return text === "true" ? true : text === "false" ? false : text
    // An empty list is written as one empty value.
    case "list":
      return texts.length === 1 && text === "" ? [] : texts
    default:
      return text
  }
}

const decimal = (text: string): unknown => (/^\d{1,9}$/.test(text) ? Number(text) : text)

const octal = (text: string): unknown =>
  /^[0-7]{1,9}$/.test(text) ? Number.parseInt(text, 8) : text

const invalid = (problem: string): BerthError => new BerthError("input.invalid", problem)
