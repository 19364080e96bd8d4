import { BerthError } from "@berth/protocol/errors"
import { type SandboxId, Slug } from "@berth/protocol/ids"
import { AGENT_USER, WORKSPACE_TARGET } from "@berth/protocol/inside"
import type { StackKey } from "@berth/protocol/layer"
import type { Mount, Overlay } from "@berth/protocol/sandbox"
import type { Layers } from "../layers/layers.ts"
import type { IsAlive } from "../layers/tops/claim.ts"
import type { TreeRoot } from "../layers/tops/ensure.ts"

const { uid, gid } = AGENT_USER

/** What of a sandbox outlives it: two trees of files, both the agent's. */
const STACKS = [
  { name: Slug.parse("workspace"), target: WORKSPACE_TARGET, mode: 0o755 },
  { name: Slug.parse("home"), target: AGENT_USER.home, mode: 0o700 },
]

/** The mounts of every workspace's config: which layers they have now is no part of it. */
export const FILE_MOUNTS: readonly Mount[] = STACKS.map(({ name: stack, target }) => ({
  ...{ kind: "stack", stack, target },
}))

/** The files of workspaces. One sandbox at a time has them. */
export interface WorkspaceFiles {
  /** Gives them to a sandbox, made if there are none. Again for the same sandbox: the same. */
  claim(workspace: Slug, sandbox: SandboxId): Promise<Overlay[]>
  /** When the sandbox is gone. Twice is as good as once. */
  release(workspace: Slug, sandbox: SandboxId): Promise<void>
  remove(workspace: Slug): Promise<void>
  /** Removes what no workspace stands on. */
  collect(signal?: AbortSignal): Promise<void>
}

export const openFiles = (layers: Layers, isAlive: IsAlive): WorkspaceFiles => {
  const ensureTop = async (key: StackKey, root: TreeRoot): Promise<void> => {
    try {
      await layers.ensureTop(key, root)
    } catch (thrown) {
      if (!(thrown instanceof BerthError && thrown.code === "layers.unknown")) throw thrown
      await layers.put(key, null)
      await layers.ensureTop(key, root)
    }
  }
  const claimOne = async (
    { name, mode }: (typeof STACKS)[number],
    workspace: Slug,
    sandbox: SandboxId,
  ): Promise<Overlay> => {
    const key: StackKey = { workspace, name }
    await ensureTop(key, { uid, gid, mode })
    const { mount } = await layers.claimTop(key, sandbox, isAlive)
    const { cwd: base, lower, upper, work, options } = mount
    return { ...{ stack: name, base, lower: [...lower], upper, work, options: [...options] } }
  }
  return {
    claim: (workspace, sandbox) =>
      Promise.all(STACKS.map((stack) => claimOne(stack, workspace, sandbox))),
    release: async (workspace, sandbox) => {
      for (const { name } of STACKS) await layers.releaseStack({ workspace, name }, sandbox)
    },
    remove: async (workspace) => {
      for (const { name } of STACKS) await layers.remove({ workspace, name })
      await layers.collect()
    },
    collect: async (signal) => {
      await layers.collect(signal && { signal })
    },
  }
}
