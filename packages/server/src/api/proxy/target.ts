import { SandboxId } from "@berth/protocol/ids"
import { SANDBOX_FEATURES } from "@berth/protocol/sandboxes"

/** The sandbox that a call is for, and the path inside it. */
export interface Target {
  readonly sandbox: SandboxId
  /** The path with its query, as it was written. */
  readonly path: string
  readonly feature: Feature
}

export type Feature = (typeof SANDBOX_FEATURES)[number]

const FORM = new RegExp(`^/v1/sandboxes/([^/?]+)(/(${SANDBOX_FEATURES.join("|")})(?:[/?].*)?)$`)

/** undefined: a sandbox serves nothing under this URL. */
export const targetOf = (url: string): Target | undefined => {
  const [, id, path, feature] = FORM.exec(url) ?? []
  const sandbox = SandboxId.safeParse(id)
  if (!sandbox.success || path === undefined) return undefined
  return { sandbox: sandbox.data, path, feature: feature as Feature }
}
