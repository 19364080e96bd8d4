import { BerthError } from "@berth/protocol/errors"
import { type Json, listIn, objectIn, textIn } from "../read.ts"

/** A permission rule of OpenCode. The last rule that matches decides. */
export interface Rule {
  readonly permission: string
  readonly pattern: string
  readonly action: "allow" | "ask"
}

const rule = (permission: string, action: Rule["action"], pattern = "*"): Rule => ({
  permission,
  pattern,
  action,
})

/** Permissions whose acts change nothing, and reach nothing outside of the workspace. */
const FREE = ["read", "glob", "grep", "list", "todowrite", "todoread", "question", "skill"]

/**
 * The rules of every conversation when OpenCode is held. As the conversation's own rules they override those of any
 * configuration file, and of any agent that a file defines. Reading files of secrets is asked for, as in OpenCode's
 * default rules.
 */
export const HELD_RULES: readonly Rule[] = [
  rule("*", "ask"),
  ...FREE.map((permission) => rule(permission, "allow")),
  ...["*.env", "*.env.*"].map((pattern) => rule("read", "ask", pattern)),
  rule("read", "allow", "*.env.example"),
]

/**
 * The environment of a held OpenCode. Subagents have conversations of their own, which do not inherit the rules above,
 * so the same rules are set as configuration that overrides every file. The repo's configuration is not loaded at all,
 * since plugins, tools and MCP servers that it names are programs that OpenCode starts unasked. The user's own plugins
 * are not loaded either, since they could answer in the person's place.
 */
export const HELD_ENVIRONMENT = {
  OPENCODE_DISABLE_PROJECT_CONFIG: "1",
  OPENCODE_PURE: "1",
  OPENCODE_PERMISSION: JSON.stringify({
    "*": "ask",
    ...Object.fromEntries(FREE.map((permission) => [permission, "allow"])),
    read: { "*": "allow", "*.env": "ask", "*.env.*": "ask", "*.env.example": "allow" },
    ...Object.fromEntries(
      ["bash", "edit", "webfetch", "websearch", "codesearch", "task", "lsp"].map((permission) => [
        permission,
        "ask",
      ]),
    ),
    external_directory: "ask",
    doom_loop: "ask",
  }),
}

/** Whether a conversation's rules end with these already. Rules can only be appended. */
export const endsWith = (rules: readonly unknown[], last: readonly Rule[]): boolean => {
  const tail = rules.slice(-last.length).map(objectIn)
  return tail.length === last.length && last.every((each, at) => isLike(tail[at] ?? {}, each))
}

/**
 * Throws if an agent that the user's own files define may do something without a question: as a subagent it would have
 * no rules of its conversation. `listed` is OpenCode's list of its agents, each with its combined rules.
 */
export const requireHeld = (listed: unknown): void => {
  for (const { name, permission } of listIn(listed).map(objectIn)) {
    const rules = listIn(permission).map(objectIn)
    const asked = rules.findLastIndex((each) => isLike(each, rule("*", "ask")))
    const loose = rules.slice(asked + 1).find(isLoose)
    if (loose === undefined) continue
    const what = `${textIn(loose.permission)} (${textIn(loose.pattern)})`
    throw new BerthError(
      "agent.unheld",
      `OpenCode's configuration lets its agent ${textIn(name)} do this without a question: ${what}`,
      { details: { agent: textIn(name), permission: what } },
    )
  }
}

/**
 * Whether a rule lets the agent act without a question. Reading files that OpenCode put aside (`external_directory`)
 * needs none.
 */
const isLoose = ({ permission, action }: Json): boolean =>
  action === "allow" && ![...FREE, "external_directory"].includes(textIn(permission) ?? "")

const isLike = (value: Json, { permission, pattern, action }: Rule): boolean =>
  value.permission === permission && value.pattern === pattern && value.action === action
