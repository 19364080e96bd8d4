import { realpathSync } from "node:fs"
import { basename } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import { Slug } from "@berth/protocol/ids"
import { AgentSpec, ImageReference, type WorkspaceSpecInput } from "@berth/protocol/workspace"
import { type DefineCommand, toJson } from "../command.ts"
import { addConfigFlags } from "../config-flags.ts"
import { connect } from "../server.ts"
import { cancelledBySignal } from "../signals.ts"
import { printable } from "../terminal.ts"
import { collect, variablesOf } from "../variables.ts"

const HELP = `
The repo is a git repo of this machine, by its path, or one elsewhere, by its URL. Without one, the sandbox
begins empty. A workspace that has a sandbox already keeps it, unless what is asked for here differs: then it gets
another, with the same files, as soon as nobody uses the old one; until then this waits, for five minutes at most,
and says for whom. The id is written to standard output when the sandbox is ready: hooks have run, and prompts
pass. The exit status is 1 when its boot failed; the sandbox is left as it is, and berth boot shows why.

Examples:
  berth up
  berth up . --agent opencode
  berth up https://example.com/app.git --ref main --name app
  box=$(berth up ./app) && berth exec "$box" -- npm test; berth rm "$box"`

export const define: DefineCommand = async (command, { out, err }) => {
  command
    .description("Makes a sandbox and waits until it is ready.")
    .argument("[repo]", "a path or a URL")
    .option("--name <slug>", "what the workspace is called; default: as the repo's directory")
    .option("--ref <ref>", "branch, tag or commit of the repo; default: its own HEAD")
    .option("--agent <kind>", "shell or opencode; default: shell")
    .option("--image <image>", "what its system comes from, where the backend takes images")
    .option("--network <policy>", "open or none; default: open")
    .option("--env <name=value>", "a variable of what runs inside, can be given often", collect)
    .option("--no-wait", "do not wait until it is ready")
    .option("--json", "write what the server says of it")
    .addHelpText("after", HELP)
  await addConfigFlags(command, "dataDir")
  command.action(async (repo: string | undefined, options) => {
    const { name, ref, agent, image, network, env, wait, ...host } = options
    const workspace = workspaceOf(repo, { name, ref, agent, image, network, env })
    const client = await connect(host)
    await cancelledBySignal(async (signal) => {
      const startedMs = performance.now()
      const said = new Set<string>()
      const onWait = (reason: string) => {
        if (!said.has(reason)) err(printable(`waiting: ${reason}\n`))
        said.add(reason)
      }
      const sandbox = await client.sandboxes.create({ workspace }, { signal, onWait })
      const view = wait ? await sandbox.ready({ signal }) : await sandbox.get({ signal })
      const tookMs = Math.round(performance.now() - startedMs)
      if (options.json) out(toJson(view))
      else {
        out(`${sandbox.id}\n`)
        err(`${view.identity.workspace} is ${view.phase} after ${tookMs} ms\n`)
      }
    })
  })
}

interface Given {
  readonly name?: string
  readonly ref?: string
  readonly agent?: string
  readonly image?: string
  readonly network?: string
  readonly env?: readonly string[]
}

const workspaceOf = (
  repo: string | undefined,
  { name, ref, agent = "shell", image, network = "open", env = [] }: Given,
): WorkspaceSpecInput => {
  if (network !== "open" && network !== "none")
    throw new BerthError("input.usage", `--network is open or none, not ${network}`)
  if (repo === undefined && ref !== undefined)
    throw new BerthError("input.usage", "--ref is of a repo, and none is named")
  const kind = AgentSpec.safeParse({ kind: agent })
  if (!kind.success)
    throw new BerthError("input.usage", `--agent is shell or opencode, not ${agent}`)
  if (image !== undefined && !ImageReference.safeParse(image).success)
    throw new BerthError("input.usage", `--image is an image's name, not ${image}`)
  const url = repo === undefined || isUrl(repo) ? repo : pathOf(repo)
  return {
    slug: slugOf(name, url),
    repos: url === undefined ? [] : [{ url, ...(ref !== undefined && { ref }) }],
    ...(image !== undefined && { system: { kind: "image", reference: image } }),
    environment: variablesOf(env),
    ...{ agent: kind.data, network: { kind: network } },
  }
}

/** `host:path`, too, which git takes for ssh. */
const isUrl = (repo: string): boolean => /^[a-z+]+:\/\/|^[^/]+:/i.test(repo)

const pathOf = (repo: string): string => {
  try {
    return realpathSync(repo)
  } catch (cause) {
    throw new BerthError("input.usage", `there is no ${repo}`, { cause })
  }
}

const slugOf = (name: string | undefined, url: string | undefined): Slug => {
  const parsed = Slug.safeParse(name ?? slugify(url === undefined ? "" : basename(url, ".git")))
  if (parsed.success) return parsed.data
  throw new BerthError("input.usage", `--name ${parsed.error.issues[0]?.message}`)
}

const slugify = (text: string): string =>
  text
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replaceAll(/^[^a-z]+|-+$/g, "")
    .slice(0, 63) || "sandbox"
