import type { SandboxId } from "@berth/protocol/ids"
import type { Parts } from "./parts.ts"

type Pausing = Pick<Parts, "cgroups" | "reclaims">

export const pauseSandbox = async (
  { cgroups, reclaims }: Pausing,
  sandbox: SandboxId,
  signal: AbortSignal,
): Promise<void> => {
  await cgroups.open(sandbox).freeze(signal)
  reclaims.begin(sandbox)
}

export const resumeSandbox = async (
  { cgroups, reclaims }: Pausing,
  sandbox: SandboxId,
  signal: AbortSignal,
): Promise<void> => {
  reclaims.end(sandbox)
  await cgroups.open(sandbox).thaw(signal)
}
