import { SandboxId } from "@berth/protocol/ids"
import { SANDBOX_FEATURES } from "@berth/protocol/sandboxes"

/** Which sandbox a call is for, and what it is called there. */
export interface Target {
  readonly sandbox: SandboxId
  /** With its query, as it was written. */
  readonly path: string
}

const FORM = new RegExp(`^/v1/sandboxes/([^/?]+)(/(?:${SANDBOX_FEATURES.join("|")})(?:[/?].*)?)$`)

/** undefined: that is nothing that a sandbox serves. */
export const targetOf = (url: string): Target | undefined => {
  const [, id, path] = FORM.exec(url) ?? []
  const sandbox = SandboxId.safeParse(id)
  return sandbox.success && path !== undefined ? { sandbox: sandbox.data, path } : undefined
}
