import { type Json, objectIn } from "../../read.ts"

/** Makes Codex ask before every command and every edit, and make no sandbox of its own. */
const ASKING = { approvalPolicy: "untrusted", approvalsReviewer: "user" }

/** Changes a message to Codex's server so that Codex asks before it acts, and the repo's files cannot loosen that. */
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

/**
 * Marks directories as untrusted: Codex takes configuration, rules, hooks and servers only from a repo that it trusts.
 */
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

/**
 * Turns a "cancel" into a "decline", so that Codex continues its turn without the refused call. "cancel" would end the
 * turn.
 */
const goingOn = (answer: Json): Json =>
  objectIn(answer.result).decision === "cancel"
    ? { ...answer, result: { ...objectIn(answer.result), decision: "decline" } }
    : answer
