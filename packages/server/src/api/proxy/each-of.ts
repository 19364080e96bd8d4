import { z } from "zod"

/**
 * A list whose first wrong element ends the look at it. A schema's own list names every wrong one, which takes
 * seconds for as many as fit into an answer.
 */
export const eachOf = <Element extends z.ZodType>(element: Element, max: number) =>
  z.unknown().transform((value, context): z.infer<Element>[] => {
    if (!Array.isArray(value) || value.length > max) return wrong(context, value)
    const parsed: z.infer<Element>[] = []
    for (const each of value) {
      const one = element.safeParse(each)
      if (!one.success) return wrong(context, value)
      parsed.push(one.data)
    }
    return parsed
  })

const wrong = (context: z.RefinementCtx, input: unknown): never => {
  context.issues.push({ code: "custom", input, message: "is no such list" })
  return z.NEVER
}
