import type { Permissions } from "@berth/protocol/workspace"

/** An agent is held if it must ask before each act, and a person answers or everything is denied. */
export const isHeld = (permissions: Permissions): boolean => permissions !== "allow"

/**
 * Instruction for a held agent. Such an agent does not load the repo's configuration, which could loosen the
 * permissions or run programs, and with it the repo's instructions to agents are not loaded. So it is told to read
 * those files, which needs no permission.
 */
export const HELD_INSTRUCTION =
  "If the working directory has an AGENTS.md or a CLAUDE.md, read it first: it holds the project's instructions."
