import { z } from "zod"
import { BootMode } from "./boot.ts"
import { SandboxId } from "./ids.ts"
import { RelativePath } from "./paths.ts"
import {
  AgentSpec,
  Environment,
  GitRef,
  HooksSpec,
  HostPorts,
  RepoUrl,
  Sidecars,
} from "./workspace.ts"

/** remote: git inside reaches it itself. host: a repo on the host, which the server sends as a git bundle. */
export const RepoSource = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("remote"), url: RepoUrl }),
  z.strictObject({ kind: z.literal("host") }),
])
export type RepoSource = z.infer<typeof RepoSource>

export const PlannedRepo = z.strictObject({
  /** The directory of the repo, below /workspace. It is also the repo's name between server and sandbox. */
  directory: RelativePath,
  source: RepoSource,
  /** A branch, a tag, a commit, or a full ref as that of a pull request. Default: the source's own HEAD. */
  ref: GitRef.optional(),
})
export type PlannedRepo = z.infer<typeof PlannedRepo>

/** The workspace's part of every boot of its sandboxes. */
export const WorkspaceBoot = z.strictObject({
  /** Hooks run in the first repo, and the agent is told of it. */
  repos: z.array(PlannedRepo),
  hooks: HooksSpec,
  /** The environment of hooks, sidecars and the agent, beside the variables that every process has. */
  environment: Environment,
  agent: AgentSpec,
  sidecars: Sidecars,
  /** Ports that lead from the sandbox's loopback to the host's. Absent: none. */
  hostPorts: HostPorts.optional(),
  /** The authorities that the host trusts beside the usual ones, in PEM. Absent: none. */
  certificates: z.array(z.string()).optional(),
})
export type WorkspaceBoot = z.infer<typeof WorkspaceBoot>

/** The supervisor's instructions: the server writes them, beside the token, before the sandbox starts. */
export const BootPlan = z.strictObject({
  sandbox: SandboxId,
  mode: BootMode,
  /** The things that this sandbox was made without, for those who watch its boot. */
  warnings: z.array(z.string()).optional(),
  ...WorkspaceBoot.shape,
})
export type BootPlan = z.infer<typeof BootPlan>
