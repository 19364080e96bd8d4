import type { BootError, BootStep, StepFacts, StepProgress, StepState } from "@berth/protocol/boot"
import {
  MAX_BOOT_TEXT_CHARS,
  MAX_LAST_OUTPUT_CHARS,
  MAX_STEP_FACTS,
  MAX_STEP_NAME_CHARS,
} from "@berth/protocol/boot-limits"
import { BerthError } from "@berth/protocol/errors"
import { ByteRing } from "../processes/output/ring.ts"
import type { Step } from "./step.ts"

/** Limit of a program's last line within a sentence for people. */
const MAX_LAST_LINE_CHARS = 200

/** The state of one step. The runner writes it as things happen, and the trace reads it at any time. */
export class StepRecord<Context> {
  readonly step: Step<Context>
  state: StepState = "pending"
  startedAtMs: number | null = null
  endedAtMs: number | null = null
  detail = ""
  facts: StepFacts = {}
  error: BootError | null = null
  abandoned = false
  /** Whether steps that need this one may start: it succeeded, or had nothing to do. */
  satisfied = false
  #output: ByteRing | undefined

  constructor(step: Step<Context>) {
    this.step = step
  }

  get settled(): boolean {
    return this.state !== "pending" && this.state !== "running"
  }

  keep(chunk: Buffer): void {
    this.#output ??= new ByteRing(MAX_LAST_OUTPUT_CHARS)
    this.#output.write(chunk)
  }

  /** Keeps the last output that an error has in its details, if the step itself passed on none. */
  keepSaid(thrown: unknown): void {
    const said = thrown instanceof BerthError ? thrown.details?.lastOutput : undefined
    if (typeof said === "string" && said !== "" && this.#output === undefined)
      this.keep(Buffer.from(said))
  }

  /** The last line that the step's programs wrote; empty if there is none. */
  get lastLine(): string {
    const lines = (this.#output?.text() ?? "").split(/[\r\n]+/).map((line) => line.trim())
    return lines.findLast((line) => line !== "")?.slice(0, MAX_LAST_LINE_CHARS) ?? ""
  }

  ranMs(nowMs: number): number {
    return this.startedAtMs === null ? 0 : (this.endedAtMs ?? nowMs) - this.startedAtMs
  }

  progress(nowMs: number): StepProgress {
    const { state, detail } = this
    return { name: this.step.name, state, ranMs: this.ranMs(nowMs), detail }
  }

  toTrace(): BootStep {
    const { name, needs, required, timeoutMs } = this.step
    const { state, startedAtMs, endedAtMs, detail, facts, error, abandoned } = this
    return {
      name,
      needs: [...needs],
      required,
      timeoutMs,
      state,
      startedAtMs,
      endedAtMs,
      detail,
      facts,
      error,
      lastOutput: this.#output?.text() ?? "",
      outputBytes: this.#output?.writtenBytes ?? 0,
      abandoned,
    }
  }
}

/** Cuts a text to the limit of a trace, and marks the cut with "…". */
export const clip = (text: string): string =>
  text.length <= MAX_BOOT_TEXT_CHARS ? text : `${text.slice(0, MAX_BOOT_TEXT_CHARS - 1)}…`

export const clipFacts = (facts: StepFacts = {}): StepFacts =>
  Object.fromEntries(
    Object.entries(facts)
      .slice(0, MAX_STEP_FACTS)
      .map(([name, fact]) => [name.slice(0, MAX_STEP_NAME_CHARS), clipFact(fact)]),
  )

const clipFact = (fact: StepFacts[string]): StepFacts[string] => {
  if (typeof fact === "string") return clip(fact)
  return Array.isArray(fact) ? fact.slice(0, MAX_STEP_FACTS).map(clip) : fact
}

/** The message of a thrown value. */
export const wordsOf = (thrown: unknown): string =>
  clip(thrown instanceof Error ? thrown.message : String(thrown))

export const errorOf = (thrown: unknown): BootError => {
  const { code, hint } =
    thrown instanceof BerthError ? thrown : new BerthError("internal", "", { cause: thrown })
  return { code, message: wordsOf(thrown), hint }
}
