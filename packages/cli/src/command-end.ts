import { constants } from "node:os"
import type { CommandExit } from "@berth/protocol/commands"
import { TIMED_OUT } from "./exit-status.ts"

/** The exit status by which this command tells how another one ended: the same as in shells. */
export const statusOf = ({ status, signal, timedOut }: CommandExit): number => {
  if (timedOut) return TIMED_OUT
  if (status !== null) return status
  return 128 + (constants.signals[signal as NodeJS.Signals] ?? 0)
}

/** How a command ended, in a few words. */
export const sayExit = ({ status, signal, timedOut }: CommandExit): string => {
  if (timedOut) return "ended as its time was up"
  return status === null ? `ended by ${signal ?? "a signal"}` : `ended with ${status}`
}
