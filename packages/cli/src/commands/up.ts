import { BerthError } from "@berth/protocol/errors"
import type { SandboxView } from "@berth/protocol/sandboxes"
import { directoryOfRepo, type WorkspaceSpecInput } from "@berth/protocol/workspace"
import type { Client } from "@berth/sdk/client"
import type { Sandbox } from "@berth/sdk/sandboxes"
import { type DefineCommand, toJson } from "../command.ts"
import { addConfigFlags } from "../config-flags.ts"
import { orReplace } from "../or-replace.ts"
import { preparingLine } from "../preparing-line.ts"
import { repoHere } from "../repo-here.ts"
import { connect } from "../server.ts"
import { cancelledBySignal } from "../signals.ts"
import { printable, type Terminal } from "../terminal.ts"
import { bringUncommitted, countUncommitted, sayUncommitted } from "../uncommitted.ts"
import {
  addWorkspaceFlags,
  describedBy,
  slugOf,
  urlOf,
  type WorkspaceFlags,
  workspaceFlags,
} from "../workspace-flags.ts"

const HELP = `
The repo is a git repo of this machine, by its path, or a remote one, by its URL. Default: the repo of the current
directory. Outside of a repo, and with --empty, the sandbox begins empty.

A workspace keeps its sandbox unless this command describes another one. Then the workspace gets a new sandbox with
the same files, as soon as nobody uses the old one; until then the command waits, for five minutes at most, and says
for whom. A session between its prompts does not count as use: it goes on in the new sandbox. Impossible settings
are refused before anything is changed.

A workspace of the same name for another repo is left alone: choose another --name, or --replace it, which removes
its files and closes its sessions. The same holds for files of that name that no workspace owns after a database was
lost: berth layers export saves them.

The id is written to standard output when the sandbox is ready: hooks have run, and prompts are accepted. The exit
status is 1 if the boot failed. The sandbox then stays up for a while (failedBootKeep), so that berth boot, shell,
exec and cp show why. Repairs of its files are kept: --retry boots again on them. Warnings of the boot, such as a
new repo that could not be cloned, are written to standard error.

Uncommitted changes in a repo of this machine are not in the sandbox, and the command says so; --dirty brings them.

Examples:
  berth up
  berth up . --dirty
  berth up . --agent opencode
  berth up . --network none --host-port 11434
  berth up https://example.com/app.git --ref main --name app
  box=$(berth up ./app) && berth exec "$box" -- npm test; berth rm "$box"`

export const define: DefineCommand = async (command, terminal) => {
  command
    .description("Makes a sandbox and waits until it is ready.")
    .argument("[repo]", "a path or a URL")
    .option("--name <slug>", "the workspace's name; default: the name of the repo's directory")
    .option("--empty", "begin without a repo, also inside of one")
    .option("--ref <ref>", "branch, tag or commit of the repo; default: its own HEAD")
    .option("--dirty", "bring uncommitted changes of the repo on this machine, too")
    .option("--replace", "replace a workspace of that name that is for another repo")
    .option("--retry", "boot again after a failed boot, on the files that are there")
    .option("--no-wait", "do not wait until the sandbox is ready")
    .option("--json", "write the sandbox as JSON")
    .addHelpText("after", HELP)
  addWorkspaceFlags(command)
  await addConfigFlags(command, "dataDir")
  command.action(async (repo: string | undefined, options) => {
    const wanted = wantedOf(repo, options)
    const client = await connect(wanted.host)
    await cancelledBySignal((signal) => up(client, wanted, { terminal, signal }))
  })
}

/** The command line, checked. */
interface Wanted {
  readonly workspace: WorkspaceSpecInput
  /** The repo of this machine, if the sandbox gets it at its own HEAD. */
  readonly local: ReturnType<typeof localRepoOf>
  readonly dirty: boolean
  readonly replace: boolean
  readonly retry: boolean
  readonly wait: boolean
  readonly json: boolean
  /** The flags by which the server is found. */
  readonly host: Readonly<Record<string, unknown>>
}

interface Options extends WorkspaceFlags {
  readonly name?: string
  readonly empty?: boolean
  readonly ref?: string
  readonly dirty?: boolean
  readonly replace?: boolean
  readonly retry?: boolean
  readonly wait: boolean
  readonly json?: boolean
}

const wantedOf = (repo: string | undefined, options: Options): Wanted => {
  const { flags, others } = workspaceFlags(options)
  const { name, ref, wait, json = false, dirty = false, replace = false, ...rest } = others
  const { empty = false, retry = false, ...host } = rest
  if (empty && repo !== undefined)
    throw new BerthError("input.usage", "--empty is for a sandbox without a repo, and one is named")
  const workspace = workspaceOf(empty ? undefined : (repo ?? repoHere()), { name, ref }, flags)
  const local = localRepoOf(workspace)
  if (dirty && (local === undefined || !wait))
    throw new BerthError(
      "input.usage",
      "--dirty is for a repo of this machine at its own HEAD, and waits until the sandbox is ready",
    )
  return { workspace, local, dirty, replace, retry, wait, json, host }
}

interface Run {
  readonly terminal: Terminal
  readonly signal: AbortSignal
}

const up = async (client: Client, wanted: Wanted, run: Run): Promise<void> => {
  const { out, err } = run.terminal
  const startedMs = performance.now()
  const onWait = sayOnce(err)
  const sandbox = await create(client, wanted, { ...run, onWait })
  const view = await settle(sandbox, wanted, { ...run, onWait })
  await bringLocal(sandbox, wanted, run)
  const tookMs = Math.round(performance.now() - startedMs)
  if (wanted.json) out(toJson(view))
  else {
    out(`${sandbox.id}\n`)
    err(`${view.identity.workspace} is ${view.phase} after ${tookMs} ms\n`)
  }
}

/** Says each reason for a wait once. */
const sayOnce = (err: Terminal["err"]) => {
  const said = new Set<string>()
  return (reason: string) => {
    if (!said.has(reason)) err(printable(`waiting: ${reason}\n`))
    said.add(reason)
  }
}

interface Waiting extends Run {
  readonly onWait: (reason: string) => void
}

const create = async (
  client: Client,
  { workspace, replace, retry }: Wanted,
  { terminal, signal, onWait }: Waiting,
): Promise<Sandbox> => {
  const preparing = preparingLine(terminal)
  const options = {
    signal,
    onPreparing: preparing.show,
    onWait: (reason: string) => {
      preparing.end()
      onWait(reason)
    },
  }
  try {
    return await orReplace(
      replace,
      (replace) => client.sandboxes.create({ workspace, replace, retry }, options),
      signal,
    )
  } finally {
    preparing.end()
  }
}

/** Waits for the sandbox, unless told not to, and writes its warnings. */
const settle = async (
  sandbox: Sandbox,
  { wait }: Wanted,
  { terminal, signal, onWait }: Waiting,
): Promise<SandboxView> => {
  const view = wait ? await sandbox.ready({ signal, onWait }) : await sandbox.get({ signal })
  // The sandbox is ready in any case: if the boot cannot be read, there is nothing to add.
  const boot = wait ? await sandbox.boot({ signal }).catch(() => undefined) : undefined
  const booted = boot?.warnings.map(({ message }) => message) ?? []
  for (const message of [...view.warnings, ...booted])
    terminal.err(printable(`warning: ${message}\n`))
  return view
}

/** Brings uncommitted changes of the local repo, or says that there are some. */
const bringLocal = async (
  sandbox: Sandbox,
  { local, dirty }: Wanted,
  { terminal, signal }: Run,
): Promise<void> => {
  if (local === undefined) return
  if (dirty) return await bringUncommitted(sandbox, local, signal)
  const count = await countUncommitted(local.repo, signal).catch(() => 0)
  if (count > 0) terminal.err(`${sayUncommitted(count)}\n`)
}

/** The local repo, if it comes as it is: with a ref it would be in another state than its files. */
const localRepoOf = ({ repos = [] }: WorkspaceSpecInput) => {
  const [spec] = repos
  if (spec === undefined || spec.ref !== undefined || !spec.url.startsWith("/")) return undefined
  const directory = directoryOfRepo(spec)
  return directory === undefined ? undefined : { repo: spec.url, directory }
}

const workspaceOf = (
  repo: string | undefined,
  { name, ref }: { readonly name?: string | undefined; readonly ref?: string | undefined },
  flags: WorkspaceFlags,
): WorkspaceSpecInput => {
  if (repo === undefined && ref !== undefined)
    throw new BerthError("input.usage", "--ref is of a repo, and none is named")
  const url = repo === undefined ? undefined : urlOf(repo)
  return {
    slug: slugOf(name, url),
    repos: url === undefined ? [] : [{ url, ...(ref !== undefined && { ref }) }],
    ...describedBy(flags),
  }
}
