import { BerthError } from "@berth/protocol/errors"
import type { SandboxId } from "@berth/protocol/ids"

export const unknownSandbox = (sandbox: SandboxId): BerthError =>
  new BerthError("not_found", `there is no sandbox ${sandbox}`, { details: { sandbox } })
