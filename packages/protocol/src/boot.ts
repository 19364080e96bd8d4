import { z } from "zod"
import {
  MAX_BOOT_STEPS,
  MAX_BOOT_TEXT_CHARS,
  MAX_BOOT_WARNINGS,
  MAX_LAST_OUTPUT_CHARS,
  MAX_STEP_FACTS,
  MAX_STEP_NAME_CHARS,
} from "./boot-limits.ts"
import { listOf, recordOf } from "./list.ts"

/**
 * fresh: clone, setup hook, start hook. prebuilt: the repo and its setup are there: fetch, checkout, start
 * hook. restore: the working tree stays as it was, start hook. build: clone, setup hook, then stop.
 */
export const BootMode = z.enum(["fresh", "prebuilt", "restore", "build"])
export type BootMode = z.infer<typeof BootMode>

/**
 * succeeded   it did its work
 * skipped     it had nothing to do, or was never started; the detail says which and why
 * failed      it threw, or missed its time limit
 * cancelled   it was running when the boot ended, and was stopped
 */
export const StepOutcome = z.enum(["succeeded", "skipped", "failed", "cancelled"])
export type StepOutcome = z.infer<typeof StepOutcome>

/** pending → running → an outcome; or pending → skipped. */
export const StepState = z.enum(["pending", "running", ...StepOutcome.options])
export type StepState = z.infer<typeof StepState>

const StepName = z.string().min(1).max(MAX_STEP_NAME_CHARS)
const Text = z.string().max(MAX_BOOT_TEXT_CHARS)
/** Milliseconds since the boot's start, by a clock that never goes back. */
const OffsetMs = z.number().min(0)

/** The facts about a step, for programs: counts, names, versions. */
export const StepFacts = recordOf(
  z.string().max(MAX_STEP_NAME_CHARS),
  z.union([Text, z.number(), z.boolean(), listOf(Text, { max: MAX_STEP_FACTS })]),
  { max: MAX_STEP_FACTS },
)
export type StepFacts = z.infer<typeof StepFacts>

export const BootError = z.strictObject({ code: z.string().max(128), message: Text, hint: Text })
export type BootError = z.infer<typeof BootError>

export const BootStep = z.strictObject({
  name: StepName,
  needs: listOf(StepName, { max: MAX_BOOT_STEPS }),
  required: z.boolean(),
  timeoutMs: z.number().positive(),
  state: StepState,
  /** null: the step was never started. Steps whose times overlap ran at the same time. */
  startedAtMs: OffsetMs.nullable(),
  /** null: the step has no outcome yet, or never ran. */
  endedAtMs: OffsetMs.nullable(),
  /** The step's work, its progress, or why it did not run. */
  detail: Text,
  facts: StepFacts,
  error: BootError.nullable(),
  lastOutput: z.string().max(MAX_LAST_OUTPUT_CHARS),
  /** The bytes of all output, of which the last output is the end. */
  outputBytes: z.int().min(0),
  /** The step went on after its cancellation and its grace period, so it may be running still. */
  abandoned: z.boolean(),
})
export type BootStep = z.infer<typeof BootStep>

/** How far another step had come at the moment when the boot ended early. */
export const StepProgress = z.strictObject({
  name: StepName,
  state: StepState,
  /** The time that the step had been running, or had run. */
  ranMs: OffsetMs,
  detail: Text,
})
export type StepProgress = z.infer<typeof StepProgress>

/** Why a boot ended before its last step. */
export const BootEnding = z.strictObject({
  /** The required step that failed; null when the boot was cancelled from outside. */
  step: StepName.nullable(),
  reason: Text,
  atMs: OffsetMs,
  others: listOf(StepProgress, { max: MAX_BOOT_STEPS }),
})
export type BootEnding = z.infer<typeof BootEnding>

export const BootWarning = z.strictObject({ step: StepName.nullable(), message: Text })
export type BootWarning = z.infer<typeof BootWarning>

/** running → succeeded, failed or cancelled. */
export const BootOutcome = z.enum(["running", "succeeded", "failed", "cancelled"])
export type BootOutcome = z.infer<typeof BootOutcome>

/** A whole boot: its steps, their times and their outcomes. */
export const BootTrace = z.strictObject({
  mode: BootMode,
  startedAt: z.iso.datetime(),
  outcome: BootOutcome,
  /** When the last required step succeeded: from then on prompts pass. */
  readyAtMs: OffsetMs.nullable(),
  endedAtMs: OffsetMs.nullable(),
  ending: BootEnding.nullable(),
  warnings: listOf(BootWarning, { max: MAX_BOOT_WARNINGS }),
  /** The steps in order: each comes after the steps that it needs. */
  steps: listOf(BootStep, { max: MAX_BOOT_STEPS }),
})
export type BootTrace = z.infer<typeof BootTrace>

const event = <Type extends string, Shape extends z.ZodRawShape>(type: Type, shape: Shape) =>
  z.strictObject({ type: z.literal(type), atMs: OffsetMs, ...shape })

/** The events of a boot while it runs. */
export const BootEvent = z.discriminatedUnion("type", [
  event("boot.step.started", { step: StepName }),
  event("boot.step.progress", { step: StepName, detail: Text }),
  event("boot.step.output", {
    step: StepName,
    text: z.string().max(MAX_LAST_OUTPUT_CHARS),
    /** Bytes that were written just before the text, and left out because they came too fast. */
    leftOutBytes: z.int().min(0),
  }),
  event("boot.step.ended", { step: StepName, outcome: StepOutcome, detail: Text, ranMs: OffsetMs }),
  event("boot.warning", { step: StepName.nullable(), message: Text }),
  event("boot.ready", {}),
  event("boot.ending", { ending: BootEnding }),
  event("boot.ended", { outcome: BootOutcome }),
])
export type BootEvent = z.infer<typeof BootEvent>

/** The time that two steps ran at once; one that still runs counts up to `nowMs`. */
export const overlapMs = (one: BootStep, other: BootStep, nowMs = 0): number => {
  if (one.startedAtMs === null || other.startedAtMs === null) return 0
  const endedAtMs = Math.min(one.endedAtMs ?? nowMs, other.endedAtMs ?? nowMs)
  return Math.max(0, endedAtMs - Math.max(one.startedAtMs, other.startedAtMs))
}
