import type { Clock } from "../processes/clock.ts"
import type { Listen } from "../processes/output/output.ts"
import type { Pipes } from "../processes/output/pipes.ts"
import { type CommandEnd, runCommand } from "../processes/run.ts"
import type { User } from "../processes/user.ts"
import { gitFailure } from "./failure.ts"

/** Time limit for local questions. Reading a large tree on a busy disk takes seconds. */
export const LOOK_DEADLINE_MS = 2 * 60_000
/** Time limit for writing a working tree. In a partial clone its blobs come over the network now. */
export const CHECKOUT_DEADLINE_MS = 15 * 60_000
/** Time limit for a clone or a fetch of a large repo over a slow line. A stalled one fails long before, see below. */
export const TRANSFER_DEADLINE_MS = 20 * 60_000
/** A server that sends nothing for this long is given up. One that prepares a pack sends signs of life every 5 s. */
export const STALL_S = 30

/** The dependencies of git calls for one repo of the plan. */
export interface GitParts {
  /** The repo's directory in the plan, for messages. */
  readonly repo: string
  /** The user that git runs as, who then owns what it writes. */
  readonly user: User | undefined
  readonly environment: Readonly<Record<string, string>>
  /** Whether git-lfs is installed. */
  readonly hasLfs: boolean
  readonly clock: Clock
  readonly pipes?: Pipes | undefined
  readonly signal: AbortSignal
  /** Called with standard error as it comes. */
  readonly onOutput?: Listen | undefined
}

export interface GitCall {
  /** The arguments after `git`. */
  readonly args: readonly [string, ...string[]]
  readonly cwd: string
  readonly deadlineMs: number
  readonly input?: string
  readonly environment?: Readonly<Record<string, string>>
  /** Leaves the repo's hooks enabled. Only for a call that installs hooks. */
  readonly withHooks?: boolean
}

/** Runs git once, to any exit status. Rejects if it is cancelled or misses its deadline. */
export const tryGit = async (call: GitCall, parts: GitParts): Promise<CommandEnd> => {
  const { repo, user, clock, pipes, signal, onOutput } = parts
  const config = [
    ...SETTINGS,
    ...(call.withHooks ? [] : ["core.hooksPath=/dev/null"]),
    ...(parts.hasLfs ? [] : WITHOUT_LFS),
  ]
  return await runCommand(
    {
      title: titleOf(call, repo),
      command: ["git", ...config.flatMap((setting) => ["-c", setting]), ...call.args],
      env: { ...environmentOf(parts.environment), ...call.environment },
      cwd: call.cwd,
      user,
      deadlineMs: call.deadlineMs,
      capture: call.input === undefined ? {} : { input: call.input },
    },
    { clock, pipes, signal, onOutput },
  )
}

/** Runs git once and returns its standard output. Throws an error that tells the kind of failure. */
export const git = async (call: GitCall, parts: GitParts): Promise<string> => {
  const end = await tryGit(call, parts)
  if (end.status !== 0) throw gitFailure(titleOf(call, parts.repo), end)
  return end.stdout.trim()
}

/** Runs git once and returns its standard output, or undefined if it ends with status 1, which means no. */
export const askGit = async (call: GitCall, parts: GitParts): Promise<string | undefined> => {
  const end = await tryGit(call, parts)
  if (end.status === 1) return undefined
  if (end.status !== 0) throw gitFailure(titleOf(call, parts.repo), end)
  return end.stdout.trim()
}

export const titleOf = ({ args }: GitCall, repo: string): string => `git ${args[0]} of ${repo}`

/**
 * Settings of every call. Nothing may outlive the call or start by itself (maintenance, a file monitor). Ownership of a
 * directory is not checked, because git runs as the user who works in it. Submodules are synced by a call of their own.
 */
export const SETTINGS = [
  "safe.directory=*",
  "core.fsmonitor=false",
  "gc.auto=0",
  "maintenance.auto=false",
  "fetch.recurseSubmodules=false",
  "submodule.recurse=false",
  "advice.detachedHead=false",
]

/** Disables the LFS filter, which a system's configuration may require though the program is missing. */
const WITHOUT_LFS = ["filter.lfs.process=", "filter.lfs.smudge=", "filter.lfs.required=false"]

/** Variables that would make git use another repo than the one it is called for. */
const MISLEADING = [
  ...["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_NAMESPACE"],
  ...["GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_CEILING_DIRECTORIES"],
]

/** The user's environment, changed so that git never asks a person and writes English. */
export const environmentOf = (own: Readonly<Record<string, string>>): Record<string, string> => ({
  GIT_HTTP_LOW_SPEED_LIMIT: "1",
  GIT_HTTP_LOW_SPEED_TIME: String(STALL_S),
  ...Object.fromEntries(Object.entries(own).filter(([name]) => !MISLEADING.includes(name))),
  GIT_TERMINAL_PROMPT: "0",
  GIT_ASKPASS: "",
  SSH_ASKPASS: "",
  SSH_ASKPASS_REQUIRE: "never",
  GIT_SSH_COMMAND: `${own.GIT_SSH_COMMAND ?? "ssh"} -o BatchMode=yes -o ConnectTimeout=${STALL_S} -o ServerAliveInterval=10 -o ServerAliveCountMax=3`,
  GCM_INTERACTIVE: "never",
  // `lfs.ts` fetches large files all at once. The filter would fetch them one by one.
  GIT_LFS_SKIP_SMUDGE: "1",
  LC_ALL: "C.UTF-8",
  LANGUAGE: "",
})
