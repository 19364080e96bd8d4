import { readdirSync } from "node:fs"
import { isDeepStrictEqual } from "node:util"
import type { Form } from "@berth/protocol/form"
import { schemaOf } from "@berth/protocol/form-of"
import * as rules from "@berth/protocol/rules"
import { runSeed } from "@berth/testing/seed"
import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { problemIn } from "./check.ts"
import * as bridge from "./forms/bridge.ts"
import * as commands from "./forms/commands.ts"
import * as files from "./forms/files.ts"
import * as git from "./forms/git.ts"
import * as plan from "./forms/plan.ts"
import * as ports from "./forms/ports.ts"
import * as terminals from "./forms/terminals.ts"
import { childrenOf, near, valueLike } from "./testing/values.ts"

const MODULES: Readonly<Record<string, Readonly<Record<string, Form>>>> = {
  "bridge.ts": bridge,
  "commands.ts": commands,
  "files.ts": files,
  "git.ts": git,
  "plan.ts": plan,
  "ports.ts": ports,
  "terminals.ts": terminals,
}

/** Each form with the forms in it, by the name of its module and the way to it. */
const forms = new Map<Form, string>()

const addAll = (form: Form, name: string): void => {
  // That of null is a part of another schema.
  if (forms.has(form) || schemaOf(form) === undefined) return
  forms.set(form, name)
  for (const [place, child] of childrenOf(form).entries()) addAll(child, `${name}.${place}`)
}

for (const [file, module] of Object.entries(MODULES))
  for (const [name, form] of Object.entries(module)) addAll(form, `${file}: ${name}`)

describe("checks by forms", () => {
  it.each([...forms].map(([form, name]) => [name, form] as const))(
    "accept what the schema accepts and leaves as it is, and nothing else: %s",
    (name, form) => {
      const schema = schemaOf(form)
      if (schema === undefined) throw new Error("the form was not made of a schema")
      let right = 0
      const agree = (value: unknown) => {
        const isRight = problemIn(form, value, "it") === undefined
        const parsed = schema.safeParse(value)
        const isSame = parsed.success && isDeepStrictEqual(parsed.data, value)
        if (isRight !== isSame) expect.fail(`${isRight}: ${JSON.stringify(value)}`.slice(0, 1000))
        if (isRight) right++
      }
      // Checked values have been JSON.
      const values = fc
        .oneof(near(form), valueLike(form))
        .map((value) => JSON.parse(JSON.stringify(value)))
      const numRuns = name.includes(".ts: ") && !/\.\d/.test(name) ? 400 : 100
      fc.assert(fc.property(values, agree), { numRuns, seed: runSeed() })
      expect(right).toBeGreaterThan(numRuns / 20)
      expect(right).toBeLessThan(numRuns)
    },
  )

  it("are compared with the schemas in every module of forms", () => {
    expect(readdirSync(new URL("forms", import.meta.url)).toSorted()).toEqual(Object.keys(MODULES))
  })

  it("have only rules that the bundles can import by name", () => {
    const named = new Set<unknown>(Object.values(rules))
    for (const [form, name] of forms)
      for (const rule of form.rules ?? []) expect(named.has(rule.holds), name).toBe(true)
  })
})
