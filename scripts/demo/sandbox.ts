import { execFileSync } from "node:child_process"
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { performance } from "node:perf_hooks"
import { ToolboxBuild } from "@berth/protocol/toolbox"
import { WorkspaceSpec } from "@berth/protocol/workspace"
import { createLogger, standardError } from "@berth/server/logging/logger"
import { Secrets } from "@berth/server/logging/secrets"
import { openStandalone } from "@berth/server/standalone"
import type { Scene } from "./scene.ts"

const PROMPT = `echo "I am $(id -un) of $(hostname), in $(pwd), on branch $(git branch --show-current)"
cat greeting
echo "the host's files: $(cat /etc/shadow 2>&1)"
echo "the network: $(ls /sys/class/net | tr '\\n' ' ')"
echo "a line by the agent" >> README && git diff --stat`

const FILES = {
  README: "A sample.\n",
  ".berth/setup.sh": "#!/bin/sh\necho hello > greeting\n",
  ".berth/start.sh": "#!/bin/sh\necho the start hook ran >> greeting\n",
}

/** Boots a sandbox from a sample repo, runs a prompt of the `shell` agent in it, and shows how it booted. */
export const runPrompt = async ({ directory, berth, defer, signal }: Scene): Promise<string> => {
  const toolbox = ToolboxBuild.parse(JSON.parse(await berth(["toolbox", "build", "--json"])))
  const secrets = new Secrets()
  const destination = standardError()
  const log = await createLogger({ level: "warn", pretty: false, secrets, destination })
  const standalone = await openStandalone(
    {
      ...{ dataDir: join(directory, "sandboxes"), links: join(directory, "data/links") },
      ...{ toolbox, log, secrets, environment: process.env },
    },
    signal,
  )
  defer(() => standalone.close())
  const workspace = WorkspaceSpec.parse({
    ...{ slug: "demo", network: { kind: "none" } },
    repos: [{ url: makeRepo(join(directory, "sample")) }],
  })
  const startedMs = performance.now()
  const sandbox = await standalone.launch(workspace, "fresh")
  await sandbox.until(({ type }) => type === "boot.ready" || type === "boot.ended")
  const readyMs = Math.round(performance.now() - startedMs)
  const waterfall = await berth(["boot"], { accept: [0, 1] })
  if ((await sandbox.trace()).readyAtMs === null) throw new Error(`it did not boot:\n${waterfall}`)
  const { state, output } = await sandbox.prompt(PROMPT)
  await sandbox.remove()
  return `${waterfall}from nothing to ready in ${readyMs} ms; the prompt ${state}:\n${output}`
}

const makeRepo = (path: string): string => {
  mkdirSync(join(path, ".berth"), { recursive: true })
  for (const [name, text] of Object.entries(FILES)) writeFileSync(join(path, name), text)
  const who = ["-c", "user.name=demo", "-c", "user.email=demo@example.com"]
  for (const args of [
    ["init", "-qb", "main"],
    ["add", "."],
    [...who, "commit", "-qm", "Sample"],
  ])
    execFileSync("git", ["-C", path, ...args], { stdio: "ignore" })
  return path
}
