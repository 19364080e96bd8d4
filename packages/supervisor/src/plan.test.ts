import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { BootPlan } from "@berth/protocol/boot-plan"
import { newId } from "@berth/protocol/ids"
import { describe, expect, it, onTestFinished } from "vitest"
import { checkPlan } from "./check-plan.ts"
import { readPlan } from "./plan.ts"

const PLAN = BootPlan.parse({
  sandbox: newId.sandbox(),
  mode: "fresh",
  repos: [
    { directory: "app", source: { kind: "remote", url: "https://example.com/app.git" }, ref: "v1" },
    { directory: "lib", source: { kind: "host" } },
  ],
  hooks: {},
  environment: { GREETING: "hello" },
  agent: { kind: "opencode", model: "some/model" },
  sidecars: [
    { name: "web", command: ["serve"], port: 3000, ready: { http: "/" }, required: true },
    { name: "log", command: ["tail"], ready: { line: "started" } },
    { name: "terminal", builtin: "terminal", port: 7681 },
  ],
  hostPorts: [11434],
  certificates: ["-----BEGIN CERTIFICATE-----\n"],
})

type Node = Record<string | number, unknown>

const read = (text: string) => {
  const directory = mkdtempSync(join(tmpdir(), "berth-plan-"))
  onTestFinished(() => rmSync(directory, { recursive: true }))
  const path = join(directory, "plan.json")
  writeFileSync(path, text)
  return checkPlan(readPlan(path), path)
}

/** Every value in the plan with the path to it. */
const valuesIn = (
  value: unknown,
  path: readonly (string | number)[] = [],
): (string | number)[][] =>
  typeof value !== "object" || value === null
    ? [[...path]]
    : [[...path], ...Object.entries(value).flatMap(([key, each]) => valuesIn(each, [...path, key]))]

const changed = (path: readonly (string | number)[], change: (at: object, key: string) => void) => {
  const holder = { plan: structuredClone(PLAN) }
  const full = ["plan", ...path]
  const at = full.slice(0, -1).reduce((node: unknown, key) => (node as Node)[key], holder) as object
  change(at, String(full.at(-1)))
  return holder.plan
}

describe("a plan", () => {
  it.each(["fresh", "prebuilt", "restore", "build"] as const)(
    "of mode %s is read as it was written",
    (mode) => {
      const plan = { ...PLAN, mode }
      expect(read(JSON.stringify(plan))).toEqual(plan)
    },
  )

  it.each([
    { kind: "shell" },
    { kind: "claude", model: "some-model", permissions: "deny" },
    { kind: "codex" },
    { kind: "acp", command: ["agent", "acp"], mode: "code", permissions: "ask" },
    { kind: "opencode", keys: ["SOME_KEY"], permissions: "deny" },
  ])("may name the agent %o", (agent) => {
    const plan = BootPlan.parse({ ...PLAN, agent })
    expect(read(JSON.stringify(plan))).toEqual(plan)
  })

  it("is refused wherever a value is of another kind, and the error names its key", () => {
    for (const path of valuesIn(PLAN)) {
      const wrong = changed(path, (at, key) => Object.assign(at, { [key]: null }))
      expect(BootPlan.safeParse(wrong).success).toBe(false)
      const place = ["plan", ...path.slice(0, 1)].join(".")
      expect(() => read(JSON.stringify(wrong)), path.join(".")).toThrow(place)
    }
  })

  it("is refused where it has an unknown key", () => {
    const objects = valuesIn(PLAN).filter((path) => {
      const value = path.reduce((node: unknown, key) => (node as Node)[key], PLAN)
      return typeof value === "object" && !Array.isArray(value) && path.at(-1) !== "environment"
    })
    expect(objects.length).toBeGreaterThan(5)
    for (const path of objects) {
      const wrong = changed([...path, "surprise"], (at) => Object.assign(at, { surprise: 1 }))
      expect(() => read(JSON.stringify(wrong)), path.join(".")).toThrow(
        /surprise is unknown|no known form|must be/,
      )
    }
  })

  it("is refused where a key is missing, where it is not JSON, and where its file is missing", () => {
    const { hostPorts: _, certificates: __, ...required } = PLAN
    for (const key of Object.keys(required)) {
      const { [key as keyof typeof PLAN]: _, ...rest } = PLAN
      expect(() => read(JSON.stringify(rest))).toThrow(`plan.${key} is missing`)
    }
    expect(() => read("{")).toThrow(expect.objectContaining({ code: "boot.plan_unusable" }))
    expect(() => readPlan("/nonexistent/plan")).toThrow(/ENOENT/)
  })
})
