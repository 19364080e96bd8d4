import { join } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import type { AgentSpec } from "@berth/protocol/workspace"
import { isHeld } from "../../held.ts"
import { type Json, objectIn } from "../../read.ts"
import type { AcpOptions } from "../acp.ts"

const MODULES = "agents/codex/node_modules"
const MAIN = `${MODULES}/@agentclientprotocol/codex-acp/dist/index.js`
const CODEX = `${MODULES}/@openai/codex/bin/codex.js`

/** The program that stands between the adapter and Codex when Codex is held. */
const GATE = "supervisor/codex-gate.cjs"

/** The mode in which Codex makes no sandbox of its own, which would fail inside of Berth's. */
const FREE_MODE = "agent-full-access"
/** A fallback: the gate decides what a held Codex may do, and this mode counts only if the gate is missing. */
const HELD_MODE = "read-only"

const KEY = "OPENAI_API_KEY"
const ENDPOINT = "https://api.openai.com/v1"

/**
 * Makes OpenAI a provider whose key comes from the environment. Codex's built-in provider requires a login, and would
 * write the key into a file of the workspace's home.
 */
const providerOf = ({
  OPENAI_BASE_URL: base_url = ENDPOINT,
}: Readonly<Record<string, string>>) => ({
  model_provider: "openai-by-key",
  model_providers: {
    "openai-by-key": { name: "OpenAI", base_url, env_key: KEY, wire_api: "responses" },
  },
})

/** The workspace's own configuration of Codex, which overrides Berth's settings of the provider. */
const configOf = (text: string): Json => {
  try {
    return objectIn(JSON.parse(text))
  } catch (cause) {
    throw new BerthError(
      "input.invalid",
      "the variable CODEX_CONFIG of the workspace is not JSON",
      {
        details: { path: "environment.CODEX_CONFIG" },
        cause,
      },
    )
  }
}

/**
 * Puts a file where Codex would make a directory for snapshots of its shell: these hold its whole environment, with the
 * key, and would stay in the workspace's home. Codex works without them.
 */
const WITHOUT_SNAPSHOTS = `
home=\${CODEX_HOME:-$HOME/.codex}
snapshots=$home/shell_snapshots
if [ ! -f "$snapshots" ]; then mkdir -p "$home" && rm -rf "$snapshots" && : > "$snapshots" || exit 1; fi
exec "$@"`

/** Codex, by the adapter that the toolbox has. */
export const codexAgent = (
  { kind, model, permissions }: Extract<AgentSpec, { kind: "codex" }>,
  toolbox: string,
): AcpOptions => ({
  name: kind,
  title: "Codex",
  command: [
    "/bin/sh",
    "-c",
    WITHOUT_SNAPSHOTS,
    "codex",
    join(toolbox, "bin/node"),
    join(toolbox, MAIN),
  ],
  permissions,
  mode: isHeld(permissions) ? HELD_MODE : FREE_MODE,
  environment: (own) => ({
    NO_BROWSER: "1",
    ...own,
    CODEX_CONFIG: JSON.stringify({
      ...(own[KEY] !== undefined && providerOf(own)),
      ...configOf(own.CODEX_CONFIG ?? "{}"),
      ...(model !== undefined && { model }),
    }),
    ...(isHeld(permissions) && {
      CODEX_PATH: join(toolbox, GATE),
      BERTH_CODEX: join(toolbox, CODEX),
    }),
  }),
  login: `give it a key with --key ${KEY}`,
})
