import {
  describeKeys,
  type KeyHelp,
  type ShownValue,
  showConfig,
} from "@berth/local/config/describe"
import { configHere } from "@berth/local/config/here"
import type { LoadedConfig } from "@berth/local/config/load"
import { type DefineCommand, toJson } from "../command.ts"
import { addConfigFlags, hostFlags } from "../config-flags.ts"
import { printable } from "../terminal.ts"

export const define: DefineCommand = async (command, { out }) => {
  command
    .description("Shows the effective configuration and where each value came from.")
    .option("--json", "write JSON")
    .addHelpText("after", help(describeKeys()))
  await addConfigFlags(command)
  command.action(async (options) => {
    const loaded = configHere(hostFlags(options))
    const effective = { file: loaded.file, values: showConfig(loaded) }
    out(options.json ? toJson(asJson(effective)) : printable(render(effective)))
  })
}

interface EffectiveConfig {
  readonly file: LoadedConfig["file"]
  readonly values: readonly ShownValue[]
}

const asJson = ({ file, values }: EffectiveConfig) => ({
  file,
  keys: Object.fromEntries(values.map(({ key, value, origin }) => [key, { value, origin }])),
})

const render = ({ file, values }: EffectiveConfig): string => {
  const rows = values.map(({ key, value, origin }) => [key, String(value ?? "(not set)"), origin])
  const table = columns([["KEY", "VALUE", "FROM"], ...rows])
  return `${table}\n\nFile: ${file.path}${file.present ? "" : " (not present)"}\n`
}

const help = (keys: readonly KeyHelp[]) => `
Flags win over environment variables, these over the file, and that over defaults. The file is YAML
with the keys below; --config or BERTH_CONFIG names it. A secret is never shown, and has no flag.

Keys:
${keys
  .map(
    ({ key, variable, description, allowed }) =>
      `  ${key} [${variable}]\n    ${description}: ${allowed}`,
  )
  .join("\n")}

Examples:
  berth config
  BERTH_LOG_LEVEL=debug berth config --json`

const columns = (rows: readonly (readonly string[])[]): string => {
  const widths = [0, 1].map((column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n")
}
