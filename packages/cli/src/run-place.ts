import { existsSync } from "node:fs"
import { dirname, join } from "node:path"
import { isDeepStrictEqual } from "node:util"
import { BerthError } from "@berth/protocol/errors"
import { WorkspaceSpec } from "@berth/protocol/workspace"
import type { Client } from "@berth/sdk/client"
import type { Session } from "@berth/sdk/sessions"
import { makeWay } from "./make-way.ts"
import { findSession } from "./server.ts"
import { describedBy, slugOf, urlOf, type WorkspaceFlags } from "./workspace-flags.ts"

/** Where a prompt is to run, as it was given. */
export interface RunPlace {
  readonly session?: string
  readonly workspace?: string
}

/** The session that is named, or a new one: in the workspace that is named, or that of the repo here. */
export const sessionFor = async (
  client: Client,
  { session, workspace }: RunPlace,
  flags: WorkspaceFlags,
): Promise<Session> => {
  if (session !== undefined) {
    if (workspace !== undefined || Object.keys(flags).length > 0)
      throw new BerthError("input.usage", "--session has its workspace, which is left as it is")
    return await findSession(client, session)
  }
  const url = workspace === undefined ? urlOf(repoHere()) : undefined
  const slug = slugOf(workspace, url)
  const known = await knownAs(client, slug)
  if (known === undefined && url === undefined)
    throw new BerthError("not_found", `there is no workspace ${slug}`)
  if (known !== undefined && url !== undefined && !known.repos.some((repo) => repo.url === url))
    throw new BerthError(
      "input.usage",
      `the workspace ${slug} is of another repo: make one of another name with berth up --name, and run in that with --workspace`,
    )
  const described = describedBy(flags, known)
  if (known !== undefined && Object.keys(described).length === 0)
    return await client.sessions.create({ workspace: slug })
  const base = known ?? { repos: url === undefined ? [] : [{ url }] }
  const wanted = { ...base, slug, ...described }
  // What cannot be so is for the server to say.
  const { success, data } = WorkspaceSpec.safeParse(wanted)
  if (known !== undefined && success && !isDeepStrictEqual(data, known)) await makeWay(client, slug)
  return await client.sessions.create({ workspace: wanted })
}

const knownAs = async (client: Client, slug: string): Promise<WorkspaceSpec | undefined> => {
  try {
    return await client.workspaces.get(slug)
  } catch (thrown) {
    if (thrown instanceof BerthError && thrown.code === "not_found") return undefined
    throw thrown
  }
}

const repoHere = (): string => {
  for (let directory = process.cwd(); ; directory = dirname(directory)) {
    if (existsSync(join(directory, ".git"))) return directory
    if (directory === dirname(directory))
      throw new BerthError(
        "input.usage",
        "this is not in a git repo: name a workspace with --workspace, or a session with --session",
      )
  }
}
