import { pathToFileURL } from "node:url"
import * as rules from "@berth/protocol/rules"
import type { Plugin } from "esbuild"

/**
 * Replaces the modules that make forms of schemas by the forms themselves, so that the bundles hold what the schemas
 * said when they were built, and no schema library.
 */
export const formsAsData: Plugin = {
  name: "forms-as-data",
  setup: ({ onLoad }) => {
    onLoad({ filter: /\/checks\/forms\/[^/]+\.ts$/ }, async ({ path }) => {
      const forms: Record<string, unknown> = await import(pathToFileURL(path).href)
      return { contents: sourceOf(forms), loader: "js" }
    })
  },
}

const NAMES = new Map<unknown, string>(Object.entries(rules).map(([name, rule]) => [rule, name]))

/** A module that exports these forms. What stands in several places of them is written once. */
export const sourceOf = (forms: Readonly<Record<string, unknown>>): string => {
  const used = new Set<string>()
  const shared = new Map<object, string>()
  const lines: string[] = []
  const write = (value: unknown): string => {
    if (value instanceof RegExp) return String(value)
    if (typeof value === "function") {
      const name = NAMES.get(value)
      if (name === undefined) throw new Error(`a schema refines by ${value}: ${WHERE_RULES_ARE}`)
      used.add(name)
      return name
    }
    if (typeof value !== "object" || value === null) return JSON.stringify(value)
    const known = shared.get(value)
    if (known !== undefined) return known
    const parts = Array.isArray(value)
      ? `[${value.map(write).join(", ")}]`
      : `{ ${Object.entries(value)
          .map(([key, each]) => `${JSON.stringify(key)}: ${write(each)}`)
          .join(", ")} }`
    if (!("kind" in value)) return parts
    const name = `form${shared.size}`
    shared.set(value, name)
    lines.push(`const ${name} = ${parts}`)
    return name
  }
  for (const [name, form] of Object.entries(forms))
    lines.push(`export const ${name} = ${write(form)}`)
  return [`import { ${[...used].join(", ")} } from "@berth/protocol/rules"`, ...lines].join("\n")
}

const WHERE_RULES_ARE = "it must be an export of protocol/src/rules.ts"
