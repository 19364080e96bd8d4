import type { Clock } from "./clock.ts"
import { type Exit, type Launched, launch } from "./launch.ts"
import type { Listen } from "./output/output.ts"
import { type ProcessParts, type ProcessSpec, READY_WITHIN_MS } from "./spec.ts"
import { endTree, NOTHING_ENDED, type TreeEnd } from "./tree/end.ts"

/** Grace for processes that an ended process left behind. They are in the way of its restart. */
export const LEFTOVER_GRACE_MS = 500

export interface LifeOptions {
  readonly parts: ProcessParts
  /** Ends the process when it fires. */
  readonly stopping: AbortSignal
  /** Read when it is needed, as a stop may change it. */
  readonly graceMs: () => number
  readonly hurry: AbortSignal
  readonly onOutput: Listen
  onStarted(started: Pick<Launched, "pid" | "tree">): void
  onReady(afterMs: number): void
}

export interface LifeEnd {
  /** Describes the end for a person; meaningless after a stop. */
  readonly how: string
  /** Time for which the process was ready; 0 if it never was. */
  readonly readyForMs: number
  readonly tree: TreeEnd
}

/** Runs a process once: from its start until none of its processes runs. Never rejects. */
export const live = async (spec: ProcessSpec, options: LifeOptions): Promise<LifeEnd> => {
  const { clock, pipes } = options.parts
  let launched: Launched
  try {
    const conversation = spec.connect !== undefined
    launched = await launch(spec, { pipes, conversation, signal: options.stopping })
  } catch (thrown) {
    return { how: wordsOf(thrown), readyForMs: 0, tree: NOTHING_ENDED }
  }
  launched.output.listen(options.onOutput)
  options.onStarted(launched)
  const over = eitherOf(launched.exited, options.stopping)
  const wait = await becomeReady(spec, launched, { clock, over, onReady: options.onReady })
  const readyAtMs = clock.nowMs()
  if (wait === "ready") await fired(over)
  const readyForMs = wait === "ready" ? clock.nowMs() - readyAtMs : 0
  const how = describeEnd(launched.exit, wait)
  const tree = await endAll(launched, options)
  return { how, readyForMs, tree }
}

/** The result of waiting for readiness: ready, ended before, or the reason why it is not. */
type Wait = "ready" | "ended" | { readonly problem: string }

const becomeReady = async (
  spec: ProcessSpec,
  launched: Launched,
  { clock, over, onReady }: { clock: Clock; over: AbortSignal; onReady: (ms: number) => void },
): Promise<Wait> => {
  const { readiness, readyWithinMs = READY_WITHIN_MS } = spec
  const startedAtMs = clock.nowMs()
  const late = new AbortController()
  const takeBack = clock.after(readyWithinMs, () => late.abort())
  const { pid, output } = launched
  try {
    converse(spec, launched)
    const signal = AbortSignal.any([over, late.signal])
    await readiness.wait({ pid, listen: (listen) => output.listen(listen) }, signal)
    if (over.aborted) return "ended"
    onReady(clock.nowMs() - startedAtMs)
    return "ready"
  } catch (thrown) {
    if (over.aborted) return "ended"
    const problem = late.signal.aborted
      ? `it did not become ready within ${readyWithinMs} ms: ${readiness.description}`
      : `it could not be told whether it is ready: ${wordsOf(thrown)}`
    return { problem }
  } finally {
    takeBack()
  }
}

const describeEnd = (exit: Exit | undefined, wait: Wait): string => {
  if (typeof wait === "object") return wait.problem
  const end = exit ? describeExit(exit) : "it was stopped"
  return wait === "ready" ? end : `${end} before it was ready`
}

const converse = ({ connect }: ProcessSpec, { pid, stdin, stdout, exited }: Launched): void => {
  if (stdin === undefined || stdout === undefined) return
  // A process that ends while it is written to is noticed by its exit.
  stdin.on("error", () => {})
  stdout.on("error", () => {})
  connect?.({ pid, stdin, stdout, exited })
}

/** Ends the remaining processes of the tree, and reads the rest of the output. */
const endAll = async (launched: Launched, options: LifeOptions): Promise<TreeEnd> => {
  const isLeftover = launched.exit !== undefined && !options.stopping.aborted
  const tree = await endTree(launched.tree, {
    clock: options.parts.clock,
    graceMs: isLeftover ? LEFTOVER_GRACE_MS : options.graceMs(),
    hurry: options.hurry,
  })
  if (tree.left.length === 0) await launched.exited
  else launched.stdout?.destroy()
  await launched.output.settled()
  launched.output.close()
  launched.stdin?.destroy()
  return tree
}

/** Fires when the promise resolves or the signal fires. */
const eitherOf = (promise: Promise<unknown>, signal: AbortSignal): AbortSignal => {
  const over = new AbortController()
  const end = () => {
    signal.removeEventListener("abort", end)
    over.abort()
  }
  if (signal.aborted) over.abort()
  else signal.addEventListener("abort", end, { once: true })
  void promise.then(end)
  return over.signal
}

const fired = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener("abort", () => resolve(), { once: true })
  })

export const describeExit = ({ status, signal }: Exit): string =>
  signal === null ? `it ended with status ${status}` : `it was ended by ${signal}`

const wordsOf = (thrown: unknown): string =>
  thrown instanceof Error ? thrown.message : String(thrown)
