import { existsSync } from "node:fs"
import { join } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import { describeExit } from "../../processes/life.ts"
import { runCommand } from "../../processes/run.ts"
import type { BootContext } from "../context.ts"
import type { StepReport, Tell } from "../step.ts"
import { findHook, type HookFile, type HookName } from "./find-hook.ts"

/** Time beyond the hook's own limit, so that the hook's is the one that is missed: its error says more. */
export const HOOK_END_MS = 10_000

export interface Hook {
  readonly name: HookName
  readonly deadlineMs: number
  /** Whether processes that the hook leaves running are kept, or ended with it. */
  readonly keepBackground: boolean
}

/** Interpreters for a file that is not executable: bash, as most scripts expect, else sh. */
const INTERPRETERS = ["/bin/bash", "/bin/sh"]

/**
 * Runs a hook of the first repo as the user, in that repo. Its environment is that of all the user's processes, and
 *
 *   BERTH_HOOK        its name: setup or start
 *   BERTH_BOOT_MODE   fresh, prebuilt, restore or build
 */
export const runHook = async (
  { name, deadlineMs, keepBackground }: Hook,
  context: BootContext,
  signal: AbortSignal,
  tell: Tell,
): Promise<StepReport> => {
  const { plan, places, clock, pipes, user } = context
  const found = await findHook(name, context)
  if ("missing" in found) {
    if (found.wasNamed) tell.warn(`the workspace names a ${name} hook, but ${found.missing}`)
    return { skipped: found.missing }
  }
  const end = await runCommand(
    {
      title: `the ${name} hook`,
      command: commandFor(found),
      env: { ...context.environment, BERTH_HOOK: name, BERTH_BOOT_MODE: plan.mode },
      cwd: found.repo,
      user,
      deadlineMs,
      keepBackground,
      log: { path: join(places.logs, `${name}-hook.log`) },
    },
    { clock, pipes, signal, onOutput: (chunk) => tell.output(chunk) },
  )
  // Kept before the status is checked, so that processes of a failed hook are ended with the boot.
  if (end.background !== undefined) context.processes.keep(`${name} hook`, end.background)
  const ranMs = Math.round(end.tookMs)
  if (end.status !== 0)
    throw new BerthError("hook.failed", `${found.path} failed: ${describeExit(end)}`, {
      details: { hook: name, path: found.path, status: end.status, signal: end.signal, ranMs },
    })
  if (end.stragglers > 0)
    tell.warn(`${found.path} left ${end.stragglers} processes running, and they were ended`)
  const background = end.background?.pids.length ?? 0
  return {
    did: `ran ${found.path} in ${ranMs} ms${background > 0 ? `; it left ${background} processes running` : ""}`,
    facts: {
      path: found.path,
      ranMs,
      outputBytes: end.outputBytes,
      background,
      ended: end.stragglers,
    },
  }
}

const commandFor = ({ file, isProgram }: HookFile): readonly [string, ...string[]] =>
  isProgram ? [file] : [INTERPRETERS.find((path) => existsSync(path)) ?? "/bin/sh", file]
