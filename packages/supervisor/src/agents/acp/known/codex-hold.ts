import { type Json, objectIn } from "../../read.ts"

/** Asks before every command and every edit, and makes no sandbox of its own. */
const ASKING = { approvalPolicy: "untrusted", approvalsReviewer: "user" }

/** A message to Codex's server, changed so that Codex asks before it acts and the repo's files do not loosen that. */
export const hold = (message: Json): Json => {
  const params = objectIn(message.params)
  switch (message.method) {
    case "turn/start": {
      const { permissions: _, ...others } = params
      return {
        ...message,
        params: { ...others, ...ASKING, sandboxPolicy: { type: "dangerFullAccess" } },
      }
    }
    case "thread/start":
    case "thread/resume":
    case "thread/fork": {
      const { permissions: _, ...others } = params
      const config = distrusting(objectIn(params.config), params.cwd)
      const held = { ...ASKING, sandbox: "danger-full-access", config }
      return { ...message, params: { ...others, ...held } }
    }
    case "thread/settings/update":
      return { ...message, params: withoutPermissions(params) }
    case undefined:
      return goingOn(message)
    default:
      return message
  }
}

/** Codex takes its configuration, rules, hooks and servers from a repo's files only where it trusts the directory. */
const distrusting = (config: Json, cwd: unknown): Json => {
  const named = Object.keys(objectIn(config.projects))
  const directories = typeof cwd === "string" ? [...named, cwd] : named
  const distrusted = directories.map((each) => [each, { trust_level: "untrusted" }])
  return { ...config, projects: Object.fromEntries(distrusted) }
}

const withoutPermissions = (params: Json): Json => {
  const { permissions, approvalPolicy, approvalsReviewer, sandboxPolicy, ...others } = params
  return others
}

/** An answer that refuses a call lets Codex go on without it: the adapter would end the turn. */
const goingOn = (answer: Json): Json =>
  objectIn(answer.result).decision === "cancel"
    ? { ...answer, result: { ...objectIn(answer.result), decision: "decline" } }
    : answer
