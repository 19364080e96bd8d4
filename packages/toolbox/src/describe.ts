import type { ToolboxFile, ToolboxManifest } from "@berth/protocol/toolbox"
import type { ToolboxInput } from "./inputs/input.ts"
import { idOf } from "./manifest.ts"
import type { Planned } from "./plan.ts"
import { hashFile, hashOf } from "./read-file.ts"

interface Describing {
  readonly arch: ToolboxManifest["arch"]
  readonly signal: AbortSignal
  readonly onBytes: (bytes: number, entry: string) => void
}

/** Makes the manifest of the planned tree, by reading everything that goes into it. */
export const describeTree = async (
  inputs: readonly ToolboxInput[],
  planned: readonly Planned[],
  { arch, signal, onBytes }: Describing,
): Promise<ToolboxManifest> => {
  const entries = inputs.map(({ name, version, main }) => ({ name, version, main }))
  const files: ToolboxFile[] = []
  for (const each of planned) {
    const tell = (bytes: number) => onBytes(bytes, each.entry)
    files.push(await describeFile(each, { signal, onBytes: tell }))
  }
  const described = { format: 1, arch, entries, files } as const
  return { ...described, id: idOf(described) }
}

const describeFile = async (
  planned: Planned,
  reading: { signal: AbortSignal; onBytes: (bytes: number) => void },
): Promise<ToolboxFile> => {
  const { path } = planned
  switch (planned.kind) {
    case "link":
      return { kind: "link", path, target: planned.target }
    case "text":
      return { kind: "file", path, mode: "444", ...hashOf(planned.text) }
    case "file": {
      const mode = planned.executable ? "555" : "444"
      return {
        kind: "file",
        path,
        mode,
        ...(await hashFile(planned.from, planned.stats.size, reading)),
      }
    }
  }
}
