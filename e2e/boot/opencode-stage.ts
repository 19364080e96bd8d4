import { execFileSync } from "node:child_process"
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { WorkspaceSpec as WorkspaceSchema, type WorkspaceSpec } from "@berth/protocol/workspace"
import { createLogger } from "@berth/server/logging/logger"
import { Secrets } from "@berth/server/logging/secrets"
import type { BackendChoice } from "@berth/server/open-backend"
import {
  type FoundSharedDirectories,
  findSharedDirectories,
} from "@berth/server/sandboxes/state/shared-directories"
import { openStandalone, type Standalone } from "@berth/server/standalone"
import { modelProgram } from "@berth/testing/model/program"
import { scriptedConfig } from "@berth/testing/opencode"
import type { Toolbox } from "@berth/toolbox/store"
import { buildToolbox } from "../toolboxes/build.ts"

/** The port of the model inside a sandbox, which has a network of its own. */
const MODEL_PORT = 4_199

/** A prompt "run: COMMAND" runs the command, "greet: NAME" calls the repo's own tool; the answer is the result. */
const MODEL_MAIN = `
import { startScriptedModel } from "./scripted-model.ts"
const CALLS = {
  run: (command) => ({ tool: "bash", arguments: { command, description: "runs" } }),
  greet: (name) => ({ tool: "greet", arguments: { name } }),
}
const call = ([, order, what]) => CALLS[order](what)
await startScriptedModel(
  ({ prompt, toolResults }) =>
    toolResults.length === 0 ? call(/^(run|greet): (.*)$/s.exec(prompt)) : { text: [toolResults[0]] },
  { port: ${MODEL_PORT} },
)
`

export interface Scene {
  readonly toolbox: Pick<Toolbox, "id" | "directory">
  /** The same toolbox, in which each system call of OpenCode that names a file is written to /tmp/calls. */
  readonly tracing: Pick<Toolbox, "id" | "directory">
  readonly repo: string
  open(
    toolbox: Pick<Toolbox, "id" | "directory">,
    backend: BackendChoice,
  ): Promise<Standalone & { readonly sharedDirectories: FoundSharedDirectories }>
  close(): void
}

/** Makes a toolbox for several boots, and a repo that tracks directories of OpenCode's and of Berth's. */
export const setScene = async (signal: AbortSignal): Promise<Scene> => {
  const base = mkdtempSync(join(tmpdir(), "berth-boot-opencode-"))
  // Sandboxes have their toolbox from here, and their users have no rights outside.
  chmodSync(base, 0o711)
  const toolbox = await buildToolbox("whole", join(base, "toolbox"), signal)
  return {
    toolbox,
    tracing: { ...toolbox, directory: traced(toolbox.directory, base) },
    repo: await makeRepo(join(base, "repo")),
    open: async (toolbox, backend) => {
      const secrets = new Secrets()
      const destination = { write: () => {} }
      const log = await createLogger({ level: "info", pretty: false, secrets, destination })
      const dataDir = mkdtempSync(join(base, "data-"))
      chmodSync(dataDir, 0o711)
      const shared = join(dataDir, "shared")
      const standalone = await openStandalone(
        {
          dataDir,
          shared,
          backend,
          toolbox,
          log,
          secrets,
          environment: { PATH: process.env.PATH, HOME: base },
        },
        signal,
      )
      return { ...standalone, sharedDirectories: findSharedDirectories(shared) }
    },
    close: () => rmSync(base, { recursive: true, force: true }),
  }
}

export const workspaceOf = ({ repo }: Scene): WorkspaceSpec => {
  const command = ["/opt/berth/bin/node", "/workspace/repo/model.mjs"]
  return WorkspaceSchema.parse({
    slug: "opencode",
    repos: [{ url: repo, directory: "repo" }],
    agent: { kind: "opencode" },
    network: { kind: "none" },
    environment: {
      OPENCODE_CONFIG_CONTENT: JSON.stringify(scriptedConfig(`http://127.0.0.1:${MODEL_PORT}/v1`)),
    },
    sidecars: [{ name: "model", command, port: MODEL_PORT, afterHooks: true, required: true }],
  })
}

/** Copies a toolbox by hard links; only OpenCode's name leads to a script that traces it. */
const traced = (toolbox: string, base: string): string => {
  const copy = join(base, "tracing")
  execFileSync("cp", ["-al", toolbox, copy])
  const program = join(copy, "bin/opencode")
  chmodSync(dirname(program), 0o755)
  rmSync(program)
  const opencode = "/opt/berth/agents/opencode/bin/opencode"
  // With the filter, calls that are not traced cost nothing.
  const strace = "strace -f --seccomp-bpf -ttt -y -e trace=%file -o /tmp/calls"
  writeFileSync(program, `#!/bin/sh\nexec ${strace} ${opencode} "$@"\n`, { mode: 0o755 })
  return copy
}

/** A tool as OpenCode documents it. */
const GREET = `import { tool } from "@opencode-ai/plugin"
export default tool({
  description: "greets",
  args: { name: tool.schema.string() },
  execute: async ({ name }) => "Hello, " + name,
})
`

const makeRepo = async (repo: string): Promise<string> => {
  const files = {
    ".berth/setup.sh": "#!/bin/sh\necho made by setup > made-by-setup.txt\n",
    ".berth/start.sh":
      "#!/bin/sh\nsleep 1.5\necho made by start | tee .opencode/command/made.md > .opencode/command/later.md\n",
    ".opencode/command/hi.md": "Say hi.\n",
    ".opencode/package.json": "{}\n",
    ".opencode/tool/greet.ts": GREET,
    ".gitignore": "made*\nlater.md\n",
    "AGENTS.md": "Be kind.\n",
    "model.mjs": await modelProgram(MODEL_MAIN),
  }
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(repo, name)), { recursive: true })
    writeFileSync(join(repo, name), text, { mode: 0o755 })
  }
  const git = (...args: string[]) => execFileSync("git", ["-C", repo, ...args], { stdio: "pipe" })
  const commit = (message: string) => {
    git("add", "--all")
    git("-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-q", "-m", message)
  }
  git("init", "-q", "-b", "main")
  commit("one")
  return repo
}
