import { z } from "zod"

/**
 * A list of `min` to `max` elements. The first invalid element ends the parse. A plain `z.array` parses every element,
 * keeps all issues of each and counts the elements last: a list of a megabyte that a sandbox sends would cost seconds.
 */
export const listOf = <Element extends z.ZodType>(
  element: Element,
  { min = 0, max }: { readonly min?: number; readonly max: number },
) => {
  const list = z.custom<unknown[]>(Array.isArray, "must be a list").transform((items, context) => {
    const parsed: z.output<Element>[] = []
    if (items.length < min || items.length > max) {
      const isShort = items.length < min
      context.addIssue({
        code: "custom",
        message: isShort ? `must have at least ${min}` : `must have at most ${max}`,
      })
      return parsed
    }
    for (const [place, item] of items.entries()) {
      const result = element.safeParse(item)
      if (result.success) {
        parsed.push(result.data)
        continue
      }
      for (const { path, message } of result.error.issues.slice(0, 1))
        context.addIssue({ code: "custom", message, path: [place, ...path] })
      return parsed
    }
    return parsed
  })
  facts.set(list, { element, min, max })
  return list
}

interface ListFacts {
  readonly element: z.ZodType
  readonly min: number
  readonly max: number
}

const facts = new WeakMap<z.ZodType, ListFacts>()

/** The parts of a schema that `listOf` made; undefined: another made it. */
export const listFacts = (schema: z.ZodType): ListFacts | undefined => facts.get(schema)

/** A record of at most `max` entries, which are counted before any is parsed. */
export const recordOf = <Key extends z.ZodString, Value extends z.ZodType>(
  key: Key,
  value: Value,
  { max }: { readonly max: number },
) =>
  z
    .custom<z.input<z.ZodRecord<Key, Value>>>(
      (given) =>
        typeof given === "object" &&
        given !== null &&
        !Array.isArray(given) &&
        Object.keys(given).length <= max,
      `must be a record of at most ${max} entries`,
    )
    .pipe(z.record(key, value))
