import { BerthError } from "@berth/protocol/errors"
import type { SandboxId, Slug } from "@berth/protocol/ids"

export const unknownSandbox = (sandbox: SandboxId): BerthError =>
  new BerthError("not_found", `there is no sandbox ${sandbox}`, { details: { sandbox } })

/** The error for an id that leads to no other sandbox: if a workspace has that name now, it is another one. */
export const detached = (sandbox: SandboxId): BerthError =>
  new BerthError("sandbox.ended", `${sandbox} has ended, and no other takes its place`, {
    details: { sandbox },
  })

export const unknownWorkspace = (workspace: Slug): BerthError =>
  new BerthError("not_found", `there is no workspace ${workspace}`, { details: { workspace } })
