import type { Backend } from "@berth/backends/backend"
import { BerthError } from "@berth/protocol/errors"
import type { RepoSpec, WorkspaceSpec } from "@berth/protocol/workspace"
import { askRepo, findRef, openHostRepo } from "../../repos/host-repo.ts"
import { sourceOf } from "../../repos/source.ts"

/** The places in a repo where OpenCode reads its configuration, which can name a model. */
const CONFIGURATION = ["opencode.json", "opencode.jsonc", ".opencode"]

/** Hooks that a repo may have beside those that the workspace names. Any hook can write a configuration. */
const OTHER_HOOKS = [".openinspect/setup.sh", ".openinspect/start.sh"]

/**
 * Refuses a prompt to OpenCode in a new workspace where nothing can bring it a model: left alone, OpenCode takes one of its
 * vendor's that is free of charge, and sends it the repo. Where a model may come from inside, the supervisor decides.
 */
export const openRequireModel =
  ({ backend }: { readonly backend: Pick<Backend, "resolveSystem"> }) =>
  async (spec: WorkspaceSpec, signal: AbortSignal): Promise<void> => {
    const { agent, environment, sidecars } = spec
    if (agent.kind !== "opencode" || agent.model !== undefined || agent.keys.length > 0) return
    if (Object.keys(environment).length > 0 || sidecars.length > 0) return
    const system = await backend.resolveSystem(spec.system, { signal })
    if (system.kind !== "host") return
    for (const repo of spec.repos) if (await canBringModel(repo, spec, signal)) return
    throw new BerthError(
      "agent.not_set_up",
      "OpenCode has no model: the workspace names none, and its repo has no configuration of OpenCode",
      { details: { workspace: spec.slug, path: "agent.model" } },
    )
  }

const canBringModel = async (
  { url, ref }: RepoSpec,
  { hooks }: Pick<WorkspaceSpec, "hooks">,
  signal: AbortSignal,
): Promise<boolean> => {
  const source = sourceOf(url)
  if (source.kind !== "host") return true
  const repo = await openHostRepo(source.path, signal)
  try {
    const { commit } = await findRef(repo, ref, signal)
    const paths = [...CONFIGURATION, ...OTHER_HOOKS, hooks.setup, hooks.start]
    const args = ["ls-tree", "--name-only", commit, "--", ...paths]
    const { status, stdout } = await askRepo(repo, args, signal)
    // A partial clone may lack the tree.
    return status !== 0 || stdout !== ""
  } finally {
    repo.close()
  }
}
