import type { Form, TextForm } from "@berth/protocol/form"
import { runSeed } from "@berth/testing/seed"
import fc, { type Arbitrary } from "fast-check"

/** Texts of which some match any pattern of the schemas, for patterns that cannot be generated. */
const WORDS = [
  "a",
  "main",
  "v1.0",
  "a/b",
  "/",
  "/a/b c",
  "https://h/x",
  "A_1",
  "a-b",
  "",
  "cmd",
  "0".repeat(40),
]

/** Texts, numbers and other values at which schemas differ from what comes to mind. */
const ODD: readonly unknown[] = [
  ...[0, 1, -1, 1.5, 2 ** 31, 2 ** 53, Number.MAX_SAFE_INTEGER, null, true, false, [], {}],
  ...["", " ", "a\0b", "a\nb", "-a", "a//b", "..", "a/../b", "\ud800", "toString", "__proto__"],
  ...["a b", "A=", "<a>", "https://u:p@h/x", "https://u@h/x", "ssh://u:p@h", "main@{u}", "a..b"],
  ...[{ base64: "/w==" }, { base64: "AA==" }, { base64: "" }, { base64: "?" }, { base64: "A A=" }],
  ...[
    [""],
    ["a"],
    ["a", ""],
    ["a\0"],
    { A: "b" },
    { "A=": "b" },
    { "": "b" },
    { A: "\0" },
    { A: 1 },
  ],
  JSON.parse('{"__proto__": "a"}'),
]

/** Values of which most have the form. */
export const valueLike = (form: Form): Arbitrary<unknown> =>
  form.rules === undefined
    ? plainValueLike(form)
    : plainValueLike(form).filter((value) =>
        (form.rules ?? []).every((rule) => rule.holds(value as never)),
      )

const plainValueLike = (form: Form): Arbitrary<unknown> => {
  switch (form.kind) {
    case "text":
      return textOf(form)
    case "number": {
      const min = Math.max(form.min ?? Number.MIN_SAFE_INTEGER, Number.MIN_SAFE_INTEGER)
      const max = Math.min(form.max ?? Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER)
      return fc.oneof(fc.integer({ min, max }), fc.constantFrom(min, max))
    }
    case "flag":
      return fc.boolean()
    case "value":
      return fc.constantFrom(...form.values)
    case "list": {
      const { min: minLength = 0, max = 3 } = form
      return fc.array(valueLike(form.element), {
        minLength,
        maxLength: Math.max(minLength, Math.min(max, 3)),
      })
    }
    case "map":
      return fc.dictionary(valueLike(form.keys) as Arbitrary<string>, valueLike(form.values), {
        maxKeys: 3,
      })
    case "object":
      return fc.record(
        Object.fromEntries(
          Object.entries({ ...form.required, ...form.optional }).map(([key, each]) => [
            key,
            valueLike(each),
          ]),
        ),
        { requiredKeys: Object.keys(form.required), noNullPrototype: true },
      )
    case "tagged":
      return fc.oneof(...Object.values(form.forms).map(valueLike))
    case "either":
      return fc.oneof(...form.forms.map(valueLike))
  }
}

const textOf = ({ min = 0, max, patterns = [] }: TextForm): Arbitrary<string> => {
  const maxLength = Math.min(max ?? 12, Math.max(12, min))
  const isRight = (word: string) =>
    word.length >= min && patterns.every(({ matches }) => matches.test(word))
  const words = [...WORDS, ...patterns.flatMap(({ matches }) => matching(matches))].filter(isRight)
  if (patterns.length > 0) return fc.constantFrom(...words)
  return fc.oneof(fc.constantFrom(...words), fc.string({ minLength: min, maxLength }))
}

const matched = new Map<string, string[]>()

/** Some texts that match a pattern. Drawn once, as that takes long. */
const matching = (pattern: RegExp): string[] => {
  const known = matched.get(pattern.source)
  if (known !== undefined) return known
  const texts: string[] = []
  try {
    texts.push(...fc.sample(fc.stringMatching(pattern), { numRuns: 20, seed: runSeed() }))
  } catch {
    // The generator knows no lookaheads: the words must do.
  }
  matched.set(pattern.source, texts)
  return texts
}

/** Values beyond the bounds of a form by one. */
const beyond = (form: Form): unknown[] => {
  const sizes = "min" in form || "max" in form ? [(form.min ?? 0) - 1, (form.max ?? 0) + 1] : []
  if (form.kind === "number") return sizes
  return sizes
    .filter((size) => size >= 0 && size < 300_000)
    .map((size) => (form.kind === "list" ? Array(size).fill("a") : "a".repeat(size)))
}

export const childrenOf = (form: Form): readonly Form[] => {
  if (form.kind === "list") return [form.element]
  if (form.kind === "map") return [form.keys, form.values]
  if (form.kind === "object") return Object.values({ ...form.required, ...form.optional })
  if (form.kind === "tagged") return Object.values(form.forms)
  return form.kind === "either" ? form.forms : []
}

const allBeyond = (form: Form): unknown[] => [
  ...beyond(form),
  ...childrenOf(form).flatMap(allBeyond),
]

/** Values near the form: of the form, or with one value in it, at any depth, changed, added or removed. */
export const near = (form: Form): Arbitrary<unknown> => {
  const odd = fc.oneof(fc.constantFrom(...ODD, ...allBeyond(form)), fc.jsonValue({ maxDepth: 1 }))
  const edit = fc.record({ how: fc.constantFrom("change", "add", "remove"), place: fc.nat(), odd })
  return fc.tuple(valueLike(form), fc.option(edit)).map(([value, change]) => {
    const copy = { value: structuredClone(value) }
    if (change === null) return copy.value
    const places = placesIn(copy)
    const { at, key } = places[change.place % places.length] ?? { at: copy as Node, key: "value" }
    if (change.how === "change" || at === copy) at[key] = change.odd
    else if (change.how === "add") at[Array.isArray(at) ? at.length : "extra"] = change.odd
    else if (Array.isArray(at)) at.splice(Number(key), 1)
    else delete at[key]
    return copy.value
  })
}

type Node = Record<string | number, unknown>

const placesIn = (holder: object): { at: Node; key: string }[] =>
  Object.entries(holder).flatMap(([key, value]) => [
    { at: holder as Node, key },
    ...(typeof value === "object" && value !== null ? placesIn(value) : []),
  ])
