import { BerthError } from "@berth/protocol/errors"
import type { Command } from "commander"

/**
 * The words after a sandbox's name: Berth's own options, then the other command as it is. A `--` separates the two, and
 * is needed only where the other's name begins with a dash.
 */
export const commandLineOf = (command: Command, words: readonly string[]): string[] => {
  if (!words[0]?.startsWith("-")) return [...words]
  const { operands, unknown } = command.parseOptions([...words])
  const [wrong] = unknown
  if (operands.length > 0 || wrong === undefined) return [...operands, ...unknown]
  if (wrong === "-h" || wrong === "--help") command.help()
  throw new BerthError("input.usage", `unknown option '${wrong}'`)
}
