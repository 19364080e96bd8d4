import type { Backend, BackendDescription } from "@berth/backends/backend"
import { BerthError } from "@berth/protocol/errors"
import type { WorkspaceSpec } from "@berth/protocol/workspace"
import { refuseApiPort } from "../../host-ports/host-ports.ts"
import type { Keys } from "../../keys/keys.ts"
import type { WorkspaceRepo } from "../../repos/answer-host-requests.ts"
import { findRef, openHostRepo } from "../../repos/host-repo.ts"
import { sourceOf } from "../../repos/source.ts"
import { hasRepo } from "../state/other-repo.ts"
import { plannedRepos, workspaceRepos } from "../state/repos.ts"

export interface ValidateParts {
  readonly backend: Pick<Backend, "resolveSystem">
  /** The kinds of network that the backend has. */
  readonly networks: BackendDescription["networks"]
  readonly keys: Keys
  /** The port on which this server listens. */
  readonly apiPort?: number | undefined
}

/**
 * Refuses a description of a workspace that no sandbox could be made from, before anything is changed: a host path that
 * is no repo, a ref that the repo lacks, a key that the server lacks, a system or a network that the backend lacks, the
 * server's own port. A remote repo is not checked: git inside may reach what the server does not.
 */
export const openValidate =
  ({ backend, networks, keys, apiPort }: ValidateParts) =>
  async (
    spec: WorkspaceSpec,
    known: WorkspaceSpec | undefined,
    signal: AbortSignal,
  ): Promise<void> => {
    const repos = workspaceRepos(spec.repos)
    plannedRepos(repos)
    validateNetwork(spec, networks)
    refuseApiPort(spec.hostPorts, apiPort)
    await keys.read(spec.agent.keys)
    // A repo that the workspace has already may have left the host since: its files are in the layers.
    for (const repo of repos) if (!hasRepo(known, repo)) await validateRepo(repo, signal)
    await backend.resolveSystem(spec.system, { signal })
  }

const validateRepo = async ({ url, ref }: WorkspaceRepo, signal: AbortSignal): Promise<void> => {
  const source = sourceOf(url)
  if (source.kind !== "host") return
  const repo = await openHostRepo(source.path, signal)
  try {
    await findRef(repo, ref, signal)
  } finally {
    repo.close()
  }
}

const validateNetwork = ({ network }: WorkspaceSpec, networks: ValidateParts["networks"]): void => {
  if (networks.includes(network.kind)) return
  throw new BerthError(
    "backend.unsupported",
    `this backend has no network of the kind ${network.kind}`,
    { details: { network: network.kind, allowed: networks } },
  )
}
