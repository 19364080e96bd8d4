import { findTool } from "@berth/host/find-tool"
import type { Outcome } from "@berth/host/run"
import type { DoctorFinding } from "@berth/protocol/doctor"
import type { DoctorHost } from "./check.ts"
import { fixForMissing, type Part } from "./install.ts"
import { oneLine } from "./one-line.ts"
import { runTool } from "./run-tool.ts"
import { parseVersion } from "./version.ts"

export type ToolState =
  | { readonly state: "absent" }
  | { readonly state: "broken"; readonly file: string; readonly reason: string }
  | { readonly state: "runs"; readonly file: string; readonly version: string }

/** Whether a tool is on the path and runs, proved by asking its version. */
export const toolState = async (
  tool: string,
  host: DoctorHost,
  signal: AbortSignal,
  versionFlag = "--version",
): Promise<ToolState> => {
  const file = await findTool(tool, host.path)
  if (file === undefined) return { state: "absent" }
  let outcome: Outcome
  try {
    outcome = await runTool(host, [file, versionFlag], signal)
  } catch (thrown) {
    signal.throwIfAborted()
    return { state: "broken", file, reason: oneLine(String(thrown)) }
  }
  const { status, stdout, stderr } = outcome
  if (status !== 0) return { state: "broken", file, reason: oneLine(stderr || stdout) }
  return { state: "runs", file, version: parseVersion(stdout) ?? "of unknown version" }
}

/** The whole check of a tool that only has to exist and run. */
export const probeTool =
  ({ tool, part, versionFlag }: { tool: string; part: Part; versionFlag?: string }) =>
  async (host: DoctorHost, signal: AbortSignal): Promise<DoctorFinding> => {
    const found = await toolState(tool, host, signal, versionFlag)
    switch (found.state) {
      case "runs": {
        const { file, version } = found
        return { status: "ok", found: `${tool} ${version}`, details: { file, version } }
      }
      case "broken":
        return {
          status: "missing",
          found: `${found.file} does not run: ${found.reason}`,
          fix: await fixForMissing(undefined, part),
          details: { file: found.file },
        }
      case "absent":
        return {
          status: "missing",
          found: `no ${tool} on the path`,
          fix: await fixForMissing(tool, part),
          details: {},
        }
    }
  }
