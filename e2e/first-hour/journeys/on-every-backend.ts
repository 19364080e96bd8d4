import type { Machine } from "../newcomer.ts"
import { background } from "./background.ts"
import { copiedFolder } from "./copied-folder.ts"
import { earlierId } from "./earlier-id.ts"
import { firstSandbox } from "./first-sandbox.ts"
import { liveFork } from "./live-fork.ts"
import { refusedCommand } from "./refused-command.ts"

/** The journeys in which a backend can make a difference; the first one makes the sandbox that the others use. */
export const onEveryBackend = (machine: Machine): void => {
  firstSandbox(machine)
  refusedCommand(machine)
  background(machine)
  copiedFolder(machine)
  liveFork(machine)
  earlierId(machine)
}
