import { BerthError } from "@berth/protocol/errors"
import { directoryOfRepo } from "@berth/protocol/workspace"
import type { Client } from "@berth/sdk/client"
import type { Sandbox } from "@berth/sdk/sandboxes"
import { findSandbox } from "./server.ts"

/** A repo in a sandbox, by its directory below the workspace. */
export interface SandboxRepo {
  readonly sandbox: Sandbox
  readonly workspace: string
  readonly directory: string
}

/** The named repo of a sandbox; without a name, the only one of its workspace. */
export const findRepo = async (
  client: Client,
  name: string,
  named: string | undefined,
  say: (line: string) => void,
): Promise<SandboxRepo> => {
  const sandbox = await findSandbox(client, name, say, { start: true })
  const { workspace } = (await sandbox.get()).identity
  if (named !== undefined) return { sandbox, workspace, directory: named }
  const { repos } = await client.workspaces.get(workspace)
  const directories = repos.flatMap((repo) => directoryOfRepo(repo) ?? [])
  const [directory, ...others] = directories
  if (directory !== undefined && others.length === 0) return { sandbox, workspace, directory }
  throw new BerthError(
    "input.usage",
    directory === undefined
      ? `the workspace ${workspace} has no repo: name a directory with --repo`
      : `the workspace ${workspace} has several repos: name one with --repo (${directories.join(", ")})`,
  )
}
