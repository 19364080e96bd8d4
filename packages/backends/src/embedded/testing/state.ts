import { newId } from "@berth/protocol/ids"
import type { SandboxState } from "../state-file.ts"
import { specFor } from "./spec.ts"

/** The state of a sandbox that is being created. */
export const stateOf = (): SandboxState => ({
  version: 1,
  spec: specFor(newId.installation()),
  progress: "creating",
  createdAt: new Date().toISOString(),
  unheldLimits: [],
})
