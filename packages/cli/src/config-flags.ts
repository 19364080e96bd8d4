import type { HostOptions } from "@berth/local/config/here"
import type { Command } from "commander"

/** Gives a command the flags of these configuration keys (all, if none are named), and `--config`. */
export const addConfigFlags = async (command: Command, ...only: string[]): Promise<void> => {
  const { describeKeys } = await import("@berth/local/config/describe")
  for (const { key, flag, description, allowed, variable } of describeKeys()) {
    if (flag === undefined || (only.length > 0 && !only.includes(key))) continue
    command.option(`${flag} <value>`, `${description}: ${allowed} [${variable}]`)
  }
  command.option("--config <file>", "YAML file to read the configuration from [BERTH_CONFIG]")
}

/** The given flags, as the host takes them. */
export const hostFlags = (options: Readonly<Record<string, unknown>>): HostOptions => {
  const { config, json: _, ...flags } = options
  return { flags, configFile: config === undefined ? undefined : String(config) }
}
