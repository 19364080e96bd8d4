import { toWireError } from "@berth/protocol/errors"
import type { SandboxId } from "@berth/protocol/ids"
import type { ReconciledSandbox, ReconcileReport } from "@berth/protocol/sandboxes"
import type { Backend } from "../backends/backend.ts"
import { type LookParts, type Seen, see } from "./look.ts"
import type { Rows } from "./rows.ts"
import type { Workers } from "./workers.ts"

export interface ReconcileParts {
  readonly backend: Pick<Backend, "list">
  readonly rows: Rows
  readonly workers: Workers
  readonly looking: LookParts
}

/** Compares what is wanted with what runs, and does about each sandbox what there is to do; or says what that is. */
export const reconcile = async (
  parts: ReconcileParts,
  { dryRun }: { dryRun: boolean },
): Promise<ReconcileReport> => {
  const startedMs = performance.now()
  const ids = await everySandbox(parts)
  const one = dryRun ? planOne : settleOne
  const sandboxes = await Promise.all([...ids].map((sandbox) => one(parts, sandbox)))
  return { dryRun, durationMs: performance.now() - startedMs, sandboxes }
}

/** Those that the store knows, and those that the engine has. */
export const everySandbox = async ({
  backend,
  rows,
}: Pick<ReconcileParts, "backend" | "rows">): Promise<Set<SandboxId>> => {
  const [known, found] = await Promise.all([rows.list(), backend.list()])
  return new Set([...known.map(({ id }) => id), ...found.map(({ identity }) => identity.sandbox)])
}

const planOne = async (parts: ReconcileParts, sandbox: SandboxId): Promise<ReconciledSandbox> => {
  const seen = await see(parts.looking, sandbox)
  const { kind } = seen.decision.action
  return { ...shown(sandbox, seen), outcome: kind === "keep" ? "kept" : "planned" }
}

const settleOne = async (
  { workers, looking, rows }: ReconcileParts,
  sandbox: SandboxId,
): Promise<ReconciledSandbox> => {
  const before = shown(sandbox, await see(looking, sandbox))
  const { decision, failure } = await workers.settle(sandbox)
  if (failure !== undefined) {
    const { code, message, details = {} } = toWireError(failure)
    const { action, reason } = decision
    const error = { code, message, details }
    return { ...before, outcome: "failed", action: action.kind, reason, error }
  }
  const after = await rows.get(sandbox)
  const isRemoved = after === undefined || after.phase === "gone"
  // What was decided at first says why; at the end there is nothing more to do.
  if (isRemoved) return { ...before, outcome: "removed" }
  if (before.action === "keep" && after.phase === before.phase)
    return { ...before, outcome: "kept", reason: decision.reason }
  return { ...before, outcome: "changed" }
}

const shown = (sandbox: SandboxId, { row, observed, decision }: Seen) => ({
  sandbox,
  workspace: row?.workspace ?? observed?.identity.workspace ?? null,
  phase: row?.phase ?? null,
  state: observed?.state ?? null,
  ...{ action: decision.action.kind, reason: decision.reason },
})
