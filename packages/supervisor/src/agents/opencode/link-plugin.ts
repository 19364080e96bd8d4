import { join } from "node:path"
import { runCommand } from "../../processes/run.ts"
import type { AgentParts } from "../parts.ts"

/** A file system that does not answer must not hold up the boot. */
const LIMIT_MS = 10_000

/** `$1`: the repo, `$2`: where packages are looked for, `$3`: the packages. */
const LINK = `
for each in tool tools plugin plugins; do
  [ -d "$1/.opencode/$each" ] || continue
  [ -e "$2/@opencode-ai" ] && exit
  mkdir -p "$2" && exec ln -sn "$3/@opencode-ai" "$2/@opencode-ai"
done`

/**
 * Links the package that a repo's own tools and plugins import to `node_modules` of the workspace, where programs of
 * every repo look for packages: OpenCode would install it into the repo. Without it, OpenCode says in the prompt what
 * it cannot load.
 */
export const linkPlugin = async (
  repo: string,
  { places: { workspace, toolbox }, clock, pipes, user, environment }: AgentParts,
  signal: AbortSignal,
): Promise<void> => {
  const modules = join(toolbox, "agents/opencode/config/node_modules")
  const args = [repo, join(workspace, "node_modules"), modules]
  const linked = runCommand(
    {
      title: "the link to OpenCode's plugin package",
      command: ["/bin/sh", "-c", LINK, "sh", ...args],
      cwd: "/",
      env: environment,
      user,
      deadlineMs: LIMIT_MS,
    },
    { clock, pipes, signal },
  )
  await linked.catch((thrown: unknown) => {
    if (signal.aborted) throw thrown
  })
}
