import type { Command } from "commander"
import { printableJson, type Terminal } from "./terminal.ts"

export interface CommandContext extends Terminal {
  /** Makes the exit status report a failure that the command has already shown. */
  readonly fail: () => void
  /** Makes this the exit status, also when the command then throws. */
  readonly exitWith: (status: number) => void
}

/** Gives a command its flags, its help and its action. */
export type DefineCommand = (command: Command, context: CommandContext) => void | Promise<void>

export const toJson = (value: unknown): string =>
  `${printableJson(JSON.stringify(value, null, 2))}\n`

/** JSON on one line. */
export const toJsonLine = (value: unknown): string => `${printableJson(JSON.stringify(value))}\n`
