import { readFileSync } from "node:fs"
import type { BootPlan } from "@berth/protocol/boot-plan"
import { BerthError } from "@berth/protocol/errors"
import type { AgentSpec } from "@berth/protocol/workspace"
import {
  type Check,
  either,
  flag,
  kinds,
  listOf,
  mapOf,
  object,
  oneOf,
  text,
  textLike,
  wholeNumber,
} from "./shape.ts"

/** Reads the sandbox's plan. Only its form is checked: the server has checked the values before it wrote them. */
export const readPlan = (path: string): BootPlan => {
  const value = parse(path)
  const problem = isPlan(value, "plan")
  if (problem !== undefined) throw unusable(path, problem)
  return value as BootPlan
}

const parse = (path: string): unknown => {
  try {
    return JSON.parse(readFileSync(path, "utf8"))
  } catch (thrown) {
    throw unusable(path, thrown instanceof Error ? thrown.message : String(thrown), thrown)
  }
}

const kind = (name: string) => ({ kind: oneOf(name) })

const isRepo = object(
  {
    directory: text,
    source: kinds("kind", {
      remote: object({ ...kind("remote"), url: text }),
      host: object(kind("host")),
    }),
  },
  { ref: text },
)

const keys = listOf(text)
const permissions = oneOf("allow", "ask", "deny")

const isAgent = kinds("kind", {
  shell: object({ ...kind("shell"), keys }),
  opencode: object({ ...kind("opencode"), keys, permissions }, { model: text }),
  claude: object({ ...kind("claude"), keys, permissions }, { model: text }),
  codex: object({ ...kind("codex"), keys, permissions }, { model: text }),
  acp: object({ ...kind("acp"), keys, permissions, command: listOf(text, 1) }, { mode: text }),
} satisfies Record<AgentSpec["kind"], Check>)

const isSidecar = object(
  { name: text, afterHooks: flag, required: flag },
  {
    command: listOf(text, 1),
    builtin: text,
    port: wholeNumber,
    ready: either(object({ line: text }), object({ http: text })),
  },
)

const isPlan = object(
  {
    sandbox: textLike(/^sb-[0-9a-z]{20}$/),
    mode: oneOf("fresh", "prebuilt", "restore", "build"),
    repos: listOf(isRepo),
    hooks: object({ setup: text, start: text }),
    environment: mapOf(text),
    agent: isAgent,
    sidecars: listOf(isSidecar),
  },
  { warnings: listOf(text), hostPorts: listOf(wholeNumber), certificates: listOf(text) },
)

const unusable = (path: string, reason: string, cause?: unknown): BerthError =>
  new BerthError("boot.plan_unusable", `the plan ${path} cannot be used: ${reason}`, {
    details: { path, reason },
    cause,
  })
