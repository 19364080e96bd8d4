import type { Permissions } from "@berth/protocol/workspace"

/** Whether an agent is held to ask before each act: a person answers, or everything that it asks for is denied. */
export const isHeld = (permissions: Permissions): boolean => permissions !== "allow"

/**
 * Told to an agent that is held. It does not load the repo's own configuration, which could loosen what the person
 * said or run programs by itself, and the repo's instructions to agents are part of that. Reading files is free.
 */
export const HELD_INSTRUCTION =
  "If the working directory has an AGENTS.md or a CLAUDE.md, read it first: it holds the project's instructions."
