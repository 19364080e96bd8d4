import type { Clock } from "../processes/clock.ts"
import type { Listen } from "../processes/output/output.ts"
import type { Pipes } from "../processes/output/pipes.ts"
import { type CommandEnd, runCommand } from "../processes/run.ts"
import type { User } from "../processes/user.ts"
import { gitFailure } from "./failure.ts"

/** For questions that a repo answers by itself. A look at a large tree on a busy disk takes seconds. */
export const LOOK_DEADLINE_MS = 2 * 60_000
/** For writing a working tree; in a partial clone its blobs come over the network now. */
export const CHECKOUT_DEADLINE_MS = 15 * 60_000
/** For a clone or a fetch: a large repo over a slow line. One that stands still fails long before, see below. */
export const TRANSFER_DEADLINE_MS = 20 * 60_000
/** A server that sends nothing for this long is given up; one that prepares a pack sends signs of life every 5 s. */
export const STALL_S = 30

/** What git works with, for one repo of the plan. */
export interface GitParts {
  /** The repo's directory in the plan, for messages. */
  readonly repo: string
  /** Whom it runs as, so that what it writes belongs to those who work with it. */
  readonly user: User | undefined
  readonly environment: Readonly<Record<string, string>>
  /** Whether git-lfs is installed. */
  readonly hasLfs: boolean
  readonly clock: Clock
  readonly pipes?: Pipes | undefined
  readonly signal: AbortSignal
  /** Called with what it writes to standard error. */
  readonly onOutput?: Listen | undefined
}

export interface GitCall {
  /** What stands behind `git`. */
  readonly args: readonly [string, ...string[]]
  readonly cwd: string
  readonly deadlineMs: number
  readonly input?: string
  readonly environment?: Readonly<Record<string, string>>
  /** Whether the repo's hooks are where they are: only for what installs them. */
  readonly withHooks?: boolean
}

/** Runs git once, to any exit status. It rejects when it is cancelled or misses its deadline. */
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

/** Runs git once and returns what it answered; a failure is an error that says what kind it is. */
export const git = async (call: GitCall, parts: GitParts): Promise<string> => {
  const end = await tryGit(call, parts)
  if (end.status !== 0) throw gitFailure(titleOf(call, parts.repo), end)
  return end.stdout.trim()
}

/** Undefined: git says no, by status 1. */
export const askGit = async (call: GitCall, parts: GitParts): Promise<string | undefined> => {
  const end = await tryGit(call, parts)
  if (end.status === 1) return undefined
  if (end.status !== 0) throw gitFailure(titleOf(call, parts.repo), end)
  return end.stdout.trim()
}

export const titleOf = ({ args }: GitCall, repo: string): string => `git ${args[0]} of ${repo}`

/**
 * Of every call. Nothing may outlive it or start by itself (maintenance, a file monitor); whose a directory is
 * says nothing here, because git runs as the one who works in it; submodules are synced by their own call.
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

/** A system's configuration may require the filter, though the program is not there. */
const WITHOUT_LFS = ["filter.lfs.process=", "filter.lfs.smudge=", "filter.lfs.required=false"]

/** Variables that would turn git to another repo than the one that it is called for. */
const MISLEADING = [
  ...["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_NAMESPACE"],
  ...["GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_CEILING_DIRECTORIES"],
]

/** The user's environment, in which git never asks a person and speaks English. */
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
  // `lfs.ts` brings large files, all at once; the filter would bring them one by one.
  GIT_LFS_SKIP_SMUDGE: "1",
  LC_ALL: "C.UTF-8",
  LANGUAGE: "",
})
