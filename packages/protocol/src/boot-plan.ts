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
  /** Where it lies, below /workspace. It is also what the repo is called between server and sandbox. */
  directory: RelativePath,
  source: RepoSource,
  /** A branch, a tag, a commit, or a full ref as that of a pull request. Default: the source's own HEAD. */
  ref: GitRef.optional(),
})
export type PlannedRepo = z.infer<typeof PlannedRepo>

/** What a workspace brings to every boot of its sandboxes. */
export const WorkspaceBoot = z.strictObject({
  /** The first is the one that hooks run in and that the agent is told of. */
  repos: z.array(PlannedRepo),
  hooks: HooksSpec,
  /** Of hooks, sidecars and the agent, beside what every process has. */
  environment: Environment,
  agent: AgentSpec,
  sidecars: Sidecars,
  /** Each leads from the sandbox's loopback to the host's. Absent: none does. */
  hostPorts: HostPorts.optional(),
  /** In PEM: the authorities that the host trusts beside the usual ones. Absent: none. */
  certificates: z.array(z.string()).optional(),
})
export type WorkspaceBoot = z.infer<typeof WorkspaceBoot>

/** What a supervisor is to do: the server writes it, beside the token, before the sandbox starts. */
export const BootPlan = z.strictObject({
  sandbox: SandboxId,
  mode: BootMode,
  /** What this sandbox was made without, for whoever watches its boot. */
  warnings: z.array(z.string()).optional(),
  ...WorkspaceBoot.shape,
})
export type BootPlan = z.infer<typeof BootPlan>
