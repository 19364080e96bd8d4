import { SandboxId } from "@berth/protocol/ids"
import { SANDBOX_FEATURES } from "@berth/protocol/sandboxes"

/** Which sandbox a call is for, and what it is called there. */
export interface Target {
  readonly sandbox: SandboxId
  /** With its query, as it was written. */
  readonly path: string
  readonly feature: Feature
}

export type Feature = (typeof SANDBOX_FEATURES)[number]

const FORM = new RegExp(`^/v1/sandboxes/([^/?]+)(/(${SANDBOX_FEATURES.join("|")})(?:[/?].*)?)$`)

/** undefined: that is nothing that a sandbox serves. */
export const targetOf = (url: string): Target | undefined => {
  const [, id, path, feature] = FORM.exec(url) ?? []
  const sandbox = SandboxId.safeParse(id)
  if (!sandbox.success || path === undefined) return undefined
  return { sandbox: sandbox.data, path, feature: feature as Feature }
}
