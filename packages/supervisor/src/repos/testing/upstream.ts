import { execFileSync } from "node:child_process"
import { appendFileSync, chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { basename, dirname, join } from "node:path"
import type { PlannedRepo } from "@berth/protocol/boot-plan"
import { onTestFinished } from "vitest"
import type { BootContext } from "../../boot/context.ts"
import { gitSync } from "../../boot/steps/git-sync.ts"
import { systemClock } from "../../processes/clock.ts"
import { Family } from "../../processes/testing/family.ts"
import type { User } from "../../processes/user.ts"
import type { HostRepos } from "../host-repos.ts"
import { type GitServer, serveGit } from "./git-server.ts"

const OPTIONS = [
  ...["-c", "safe.directory=*", "-c", "user.name=Someone", "-c", "user.email=someone@example.com"],
  // A commit then starts no further process.
  ...["-c", "maintenance.auto=false"],
]

/** Time limit of a test's own git. It never uses the network, as the server could not answer meanwhile. */
const RUN_DEADLINE_MS = 10_000

/** Runs the real git, for a test's own purposes. */
export const run = (cwd: string, ...args: string[]): string =>
  execFileSync("git", [...OPTIONS, ...args], {
    cwd,
    env: { PATH: process.env.PATH, HOME: "/nonexistent", GIT_CONFIG_NOSYSTEM: "1" },
    encoding: "utf8",
    timeout: RUN_DEADLINE_MS,
    stdio: ["ignore", "pipe", "pipe"],
  }).trim()

export const write = (root: string, files: Readonly<Record<string, string | Buffer>>): void => {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(join(root, dirname(path)), { recursive: true })
    writeFileSync(join(root, path), text)
  }
}

/** Commits these files, in addition to the existing ones. */
export const commit = (root: string, files: Readonly<Record<string, string | Buffer>>): string => {
  write(root, files)
  run(root, "add", "--all", "--force")
  run(root, "commit", "--quiet", "-m", Object.keys(files).join(" "))
  return run(root, "rev-parse", "HEAD")
}

/** Makes one served repo a submodule of another, by its address on the server. */
export const addSubmodule = (root: string, path: string, url: string): void => {
  const name = basename(path)
  mkdirSync(join(root, name))
  const id = run(path, "rev-parse", "HEAD")
  run(root, "update-index", "--add", "--cacheinfo", `160000,${id},${name}`)
  commit(root, { ".gitmodules": `[submodule "${name}"]\n\tpath = ${name}\n\turl = ${url}\n` })
}

export interface Bench {
  readonly root: string
  readonly workspace: string
  readonly server: GitServer
  readonly family: Family
  /** Makes a repo that the server serves, with one commit. */
  upstream(name: string, files?: Readonly<Record<string, string | Buffer>>): string
  sync(options: SyncTest): Promise<Told>
}

export interface SyncTest {
  readonly repos: readonly PlannedRepo[]
  readonly how?: "clone" | "update" | "restore"
  readonly signal?: AbortSignal
  readonly user?: User
  readonly environment?: Readonly<Record<string, string>>
  readonly hostRepos?: HostRepos
  readonly onProgress?: (detail: string) => void
  readonly clock?: BootContext["clock"]
}

export interface Told {
  readonly did: string
  readonly facts: Readonly<Record<string, unknown>>
  readonly warnings: readonly string[]
  readonly progress: readonly string[]
  readonly output: string
}

/** Makes a workspace, and a server with repos, all real. */
export const bench = async (): Promise<Bench> => {
  const root = mkdtempSync(join(tmpdir(), "berth-git-"))
  chmodSync(root, 0o755)
  const workspace = join(root, "sandbox", "workspace")
  mkdirSync(workspace, { recursive: true })
  mkdirSync(join(root, "sandbox", "home", "agent"), { recursive: true })
  const server = await serveGit(join(root, "upstream"))
  const family = new Family()
  onTestFinished(async () => {
    await server.close()
    family.killAll()
    rmSync(root, { recursive: true, force: true })
  })
  return {
    root,
    workspace,
    server,
    family,
    upstream: (name, files = { "README.md": "one\n" }) => {
      const path = join(root, "upstream", name)
      mkdirSync(path, { recursive: true })
      run(path, "init", "--quiet", "--template=", "-b", "main")
      appendFileSync(join(path, ".git/config"), "[uploadpack]\n\tallowFilter = true\n")
      commit(path, files)
      return path
    },
    sync: (options) => sync(root, workspace, family, options),
  }
}

const sync = async (
  root: string,
  workspace: string,
  family: Family,
  options: SyncTest,
): Promise<Told> => {
  const warnings: string[] = []
  const progress: string[] = []
  const output: Buffer[] = []
  const home = join(root, "sandbox", "home", "agent")
  const context = {
    plan: { repos: options.repos },
    places: { workspace, home },
    user: options.user,
    environment: { ...family.env, HOME: home, ...options.environment },
    clock: options.clock ?? systemClock,
    hostRepos: options.hostRepos,
  } as unknown as BootContext
  const step = gitSync(options.how ?? "clone")
  const report = await step.run(context, options.signal ?? new AbortController().signal, {
    progress: (detail) => {
      progress.push(detail)
      options.onProgress?.(detail)
    },
    output: (chunk) => output.push(chunk),
    warn: (message) => warnings.push(message),
  })
  if (!("did" in report)) throw new Error(report.skipped)
  const text = Buffer.concat(output).toString()
  return { did: report.did, facts: report.facts ?? {}, warnings, progress, output: text }
}
