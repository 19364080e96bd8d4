import { background } from "./background.ts"
import { copiedFolder } from "./copied-folder.ts"
import { earlierId } from "./earlier-id.ts"
import { liveFork } from "./live-fork.ts"
import { refusedCommand } from "./refused-command.ts"

/** The journeys in which a backend can make a difference. Each uses the sandbox that `firstSandbox` makes, and only that. */
export const ON_EVERY_BACKEND = [refusedCommand, background, copiedFolder, liveFork, earlierId]
