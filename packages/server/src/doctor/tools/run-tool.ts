import { PLAIN_ENV } from "@berth/host/child"
import { type Outcome, run } from "@berth/host/run"
import type { DoctorHost } from "./check.ts"

/** Runs a program to its end, with the tools of the examined host on its path. */
export const runTool = (
  { path }: Pick<DoctorHost, "path">,
  command: readonly [string, ...string[]],
  signal: AbortSignal,
  { cwd = "/" } = {},
): Promise<Outcome> => run(command, { signal, cwd, env: { ...PLAIN_ENV, PATH: path } })
