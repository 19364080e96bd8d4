import { CERTIFICATES_TARGET } from "@berth/protocol/certificates"
import { AGENT_USER, TOOLBOX_TARGET, WORKSPACE_TARGET } from "@berth/protocol/inside"
import { SHARED_TARGET, SUPERVISOR_PORT_VARIABLE } from "@berth/protocol/shared-directory"
import { CREDENTIALS_SOCKET } from "./bridge/git-environment.ts"
import { run } from "./run.ts"

/** Directory for logs, in memory and for root alone. */
const LOGS = "/run/berth-logs"

const { home } = AGENT_USER
run({
  shared: SHARED_TARGET,
  port: Number(process.env[SUPERVISOR_PORT_VARIABLE] ?? 0),
  places: { workspace: WORKSPACE_TARGET, home, toolbox: TOOLBOX_TARGET, logs: LOGS },
  credentials: CREDENTIALS_SOCKET,
  certificates: CERTIFICATES_TARGET,
  user: AGENT_USER,
})
