import type { Backend, ObservedSandbox } from "@berth/backends/backend"
import { toWireError } from "@berth/protocol/errors"
import type { SandboxId } from "@berth/protocol/ids"
import type { ReconciledSandbox, ReconcileReport } from "@berth/protocol/sandboxes"
import type { Rows } from "../state/rows.ts"
import type { Seen } from "./act.ts"
import { type LookParts, see } from "./look.ts"
import type { Workers } from "./workers.ts"

export interface ReconcileParts {
  readonly backend: Pick<Backend, "list">
  readonly rows: Rows
  readonly workers: Workers
  readonly looking: LookParts
}

/**
 * Compares what is wanted with what runs, and executes the next actions for each sandbox; with `dryRun`, only reports
 * them.
 */
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

/** Every sandbox that the store knows or the engine has. `seen`: the engine's list, if it was just read. */
export const everySandbox = async (
  { backend, rows }: Pick<ReconcileParts, "backend" | "rows">,
  seen?: readonly ObservedSandbox[],
): Promise<Set<SandboxId>> => {
  const [known, found] = await Promise.all([rows.list(), seen ?? backend.list()])
  return new Set([...known.map(({ id }) => id), ...found.map(({ identity }) => identity.sandbox)])
}

const planOne = async (parts: ReconcileParts, sandbox: SandboxId): Promise<ReconciledSandbox> => {
  try {
    const seen = await see(parts.looking, sandbox)
    const { kind } = seen.decision.action
    return { ...shown(sandbox, seen), outcome: kind === "keep" ? "kept" : "planned" }
  } catch (thrown) {
    return { ...unseen(sandbox), ...failed(thrown) }
  }
}

const settleOne = async (
  { workers }: ReconcileParts,
  sandbox: SandboxId,
): Promise<ReconciledSandbox> => {
  const { first, seen, decision, failure } = await workers.settle(sandbox)
  // The first decision says why; at the end there is nothing more to do.
  const found = first.seen ?? seen
  const before = found === undefined ? unseen(sandbox) : shown(sandbox, found)
  const action = decision.action.kind
  const { reason } = decision
  if (failure !== undefined || seen === undefined)
    return { ...before, action, reason, ...failed(failure) }
  const isGone = seen.row === undefined ? seen.observed === undefined : seen.row.phase === "gone"
  if (isGone || action === "forget") return { ...before, outcome: "removed" }
  const { phase, state } = shown(sandbox, seen)
  if (phase === before.phase && state === before.state)
    return { ...before, outcome: "kept", action, reason }
  return { ...before, outcome: "changed" }
}

/** The failure of one sandbox, which does not affect the others. */
const failed = (thrown: unknown): Pick<ReconciledSandbox, "outcome" | "error"> => {
  const { code, message, details = {} } = toWireError(thrown)
  return { outcome: "failed", error: { code, message, details } }
}

const unseen = (sandbox: SandboxId): Omit<ReconciledSandbox, "outcome"> => ({
  sandbox,
  workspace: null,
  phase: null,
  state: null,
  action: "keep",
  reason: "its state cannot be read",
})

const shown = (
  sandbox: SandboxId,
  { row, observed, decision }: Seen,
): Omit<ReconciledSandbox, "outcome"> => ({
  sandbox,
  workspace: row?.workspace ?? observed?.identity.workspace ?? null,
  phase: row?.phase ?? null,
  state: observed?.state ?? null,
  action: decision.action.kind,
  reason: decision.reason,
})
