import { opencode } from "./agents/opencode.ts"
import type { ToolboxInput } from "./input.ts"
import { node } from "./node.ts"
import { pty } from "./pty.ts"
import { ripgrep } from "./ripgrep.ts"
import type { FindInput, InputSource } from "./source.ts"
import { supervisor } from "./supervisor.ts"
import { tini } from "./tini.ts"
import { webTerminal } from "./web-terminal.ts"

/** Each brings the version that the lock file pins. A further agent is a file beside this one, and a place here. */
const AGENTS: readonly FindInput[] = [opencode]

const ENTRIES: readonly FindInput[] = [node, tini, ripgrep, pty, supervisor, webTerminal, ...AGENTS]

/** Everything that this version of Berth brings into sandboxes. */
export const currentInputs = (source: InputSource): Promise<ToolboxInput[]> =>
  Promise.all(ENTRIES.map((find) => find(source)))
