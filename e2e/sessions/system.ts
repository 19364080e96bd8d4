import { execFile } from "node:child_process"
import { chmod, mkdir, symlink, writeFile } from "node:fs/promises"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { packageTree } from "@berth/server/toolbox/inputs/packages"
import { BOOT_PACKAGES, systemFiles } from "@berth/testing/system-files"
import type { AgentName } from "./agents.ts"

const exec = promisify(execFile)

const BERTH = fileURLToPath(new URL("../..", import.meta.url))
const MODULES = "usr/local/lib/node_modules"

/** Agents that are a system's own: the command that starts each, and the package that has it. */
const OWN: Partial<Record<AgentName, readonly [command: string, name: string]>> = {
  claude: ["claude-agent-acp", "@agentclientprotocol/claude-agent-acp"],
  codex: ["codex-acp", "@agentclientprotocol/codex-acp"],
}

/**
 * A system with those of the agents that Berth does not bring, where `npm install --global` puts them. Its files are
 * those of the host and of this checkout, under another name: they have a gigabyte.
 */
export const makeAgentSystem = async (
  root: string,
  agents: readonly AgentName[],
): Promise<void> => {
  for (const each of ["usr/local/bin", "etc", "proc", "sys", "dev", "tmp", "run", "home", "sbin"])
    await mkdir(join(root, each), { recursive: true })
  await chmod(join(root, "tmp"), 0o1777)
  for (const each of ["bin", "lib", "lib64"]) await symlink(`usr/${each}`, join(root, each))
  await writeFile(join(root, "etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n")
  await writeFile(join(root, "etc/group"), "root:x:0:\n")
  await copy(["--parents", ...(await systemFiles(BOOT_PACKAGES)), root], "/")
  for (const agent of agents) {
    const [command, name] = OWN[agent] ?? []
    if (command === undefined || name === undefined) continue
    for (const part of await packageTree(command, name, { from: BERTH, to: MODULES })) {
      if (part.kind !== "tree") continue
      const to = join(root, part.to)
      await mkdir(dirname(to), { recursive: true })
      await copy(["--recursive", "--no-target-directory", part.from, to], BERTH)
    }
    const program = `../lib/node_modules/${name}/dist/index.js`
    await symlink(program, join(root, "usr/local/bin", command))
  }
}

/** As another name of the same file; where that cannot be, because it lies on another disk, as a copy. */
const copy = async (args: readonly string[], cwd: string): Promise<void> => {
  const cp = (how: string) =>
    exec("cp", [how, "--no-dereference", "--preserve=mode", ...args], { cwd })
  await cp("--link").catch(() => cp("--remove-destination"))
}
