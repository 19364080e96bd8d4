import { BerthError } from "@berth/protocol/errors"
import type { WorkspaceSpec, WorkspaceSpecInput } from "@berth/protocol/workspace"
import type { Client } from "@berth/sdk/client"
import type { Session } from "@berth/sdk/sessions"
import { orReplace } from "./or-replace.ts"
import { repoHere } from "./repo-here.ts"
import { type Changes, changesOf } from "./say-changes.ts"
import { findSession } from "./server.ts"
import { describedBy, slugOf, urlOf, type WorkspaceFlags } from "./workspace-flags.ts"

/** The place where a prompt is to run, as it was given. */
export interface RunPlace {
  readonly session?: string | undefined
  readonly workspace?: string | undefined
  /** The name for the workspace of the repo here. */
  readonly name?: string | undefined
  readonly replace?: boolean | undefined
}

export interface FoundSession {
  readonly session: Session
  /** The parts of an existing workspace that the flags changed. */
  readonly changes: Changes
  /** The session's own agent, where the workspace has another. */
  readonly agent?: "shell" | undefined
}

/** The named session, or a new one: in the named workspace, or that of the repo here. */
export const sessionFor = async (
  client: Client,
  { session, workspace, name, replace = false }: RunPlace,
  flags: WorkspaceFlags,
): Promise<FoundSession> => {
  if (session !== undefined) {
    if (workspace !== undefined || name !== undefined || replace || Object.keys(flags).length > 0)
      throw new BerthError(
        "input.usage",
        "--session goes on in its workspace as that is: leave out --session, or the flags that name or change a workspace",
      )
    return { session: await findSession(client, session), changes: {} }
  }
  if (workspace !== undefined && (name !== undefined || replace))
    throw new BerthError(
      "input.usage",
      "--name and --replace are for the repo of the current directory, not for --workspace",
    )
  const url = workspace === undefined ? urlOf(requireRepoHere()) : undefined
  const slug = slugOf(workspace ?? name, url, workspace === undefined ? "--name" : "--workspace")
  const known = await knownAs(client, slug)
  if (known === undefined && url === undefined)
    throw new BerthError("not_found", `there is no workspace ${slug}`)
  const { agent, ...others } = flags
  const isOwn = agent === "shell" && known !== undefined && isOnlyShell(flags, known)
  const lasting = isOwn ? others : flags
  const wanted = wantedOf({ slug, url, known }, lasting)
  const made = await orReplace(replace, (replace) =>
    client.sessions.create({
      workspace: wanted,
      replace,
      ...(isOwn && { agent: { kind: agent } }),
    }),
  )
  return {
    session: made,
    changes: known === undefined ? {} : changesOf(known, describedBy(lasting, known)),
    ...(isOwn && { agent }),
  }
}

/**
 * Whether the flags ask only for the shell in a workspace of another agent, which stays as it is: every sandbox runs
 * the shell.
 */
const isOnlyShell = ({ model, key, permissions }: WorkspaceFlags, known: WorkspaceSpec): boolean =>
  known.agent.kind !== "shell" && (model ?? key ?? permissions) === undefined

/** The wanted workspace; its name alone where it is to stay as it is. */
const wantedOf = (
  {
    slug,
    url,
    known,
  }: {
    readonly slug: string
    readonly url: string | undefined
    readonly known: WorkspaceSpec | undefined
  },
  flags: WorkspaceFlags,
): string | WorkspaceSpecInput => {
  const repos = url === undefined ? [] : [{ url }]
  if (known === undefined) return { slug, repos, ...describedBy(flags) }
  const described = describedBy(flags, known)
  // A workspace that is for no repo yet gets this one.
  if (known.repos.length === 0 && url !== undefined) return { ...known, ...described, repos }
  // The server decides whether a workspace for another repo can become this one.
  if (url !== undefined && !known.repos.some((repo) => repo.url === url))
    return { slug, repos, ...describedBy(flags) }
  return Object.keys(described).length === 0 ? slug : { ...known, ...described }
}

const knownAs = async (client: Client, slug: string): Promise<WorkspaceSpec | undefined> => {
  try {
    return await client.workspaces.get(slug)
  } catch (thrown) {
    if (thrown instanceof BerthError && thrown.code === "not_found") return undefined
    throw thrown
  }
}

const requireRepoHere = (): string => {
  const found = repoHere()
  if (found !== undefined) return found
  throw new BerthError(
    "input.usage",
    "this is not in a git repo: name a workspace with --workspace, or a session with --session",
  )
}
