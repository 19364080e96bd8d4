import { BerthError } from "@berth/protocol/errors"
import { type Json, listIn, objectIn, textIn } from "../read.ts"

/** A rule of OpenCode. The last one that matches decides. */
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

/** Acts that change nothing and reach nothing outside of the workspace. */
const FREE = ["read", "glob", "grep", "list", "todowrite", "todoread", "question", "skill"]

/**
 * The rules of every conversation of an OpenCode that is held. They are the conversation's own, which count more than
 * those of any configuration file and of any agent that a file defines. Files of secrets are asked for, as in
 * OpenCode's own rules.
 */
export const HELD_RULES: readonly Rule[] = [
  rule("*", "ask"),
  ...FREE.map((permission) => rule(permission, "allow")),
  ...["*.env", "*.env.*"].map((pattern) => rule("read", "ask", pattern)),
  rule("read", "allow", "*.env.example"),
]

/**
 * The environment of an OpenCode that is held. Subagents have conversations of their own, to which the rules above do
 * not pass: the same is said as configuration, after every file. The repo's files are left out altogether, since
 * plugins, tools and MCP servers that they name are programs that OpenCode starts unasked; of the user's own files,
 * plugins are, which could answer in the person's place.
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

/** Whether a conversation ends with these rules already: they are appended, and nothing is ever removed. */
export const endsWith = (rules: readonly unknown[], last: readonly Rule[]): boolean => {
  const tail = rules.slice(-last.length).map(objectIn)
  return tail.length === last.length && last.every((each, at) => isLike(tail[at] ?? {}, each))
}

/**
 * Refuses where an agent that the user's own files define allows itself something unasked: as a subagent it would have
 * no rules of its conversation's own. `listed` is what OpenCode says of its agents, with the rules that it has put
 * together for each.
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

/** Reading what OpenCode itself has put aside needs no question. */
const isLoose = ({ permission, action }: Json): boolean =>
  action === "allow" && ![...FREE, "external_directory"].includes(textIn(permission) ?? "")

const isLike = (value: Json, { permission, pattern, action }: Rule): boolean =>
  value.permission === permission && value.pattern === pattern && value.action === action
