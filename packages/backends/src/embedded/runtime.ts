import { closeSync, constants, openSync, readFileSync, unlinkSync, writeSync } from "node:fs"
import { rm } from "node:fs/promises"
import { join } from "node:path"
import { PLAIN_ENV } from "@berth/host/child"
import { type Outcome, run } from "@berth/host/run"
import { BerthError } from "@berth/protocol/errors"
import type { SandboxId } from "@berth/protocol/ids"
import { z } from "zod"
import { sandboxOomScore } from "../oom-score.ts"
import { quoted } from "./quoted.ts"
import { removeRuncCgroups } from "./runc-cgroups.ts"

/** An OCI runtime of this host, with the commands that Berth uses. */
export interface Runtime {
  readonly name: "crun" | "runc"
  readonly version: string
  /** Whether a container can be created in an existing user namespace. */
  readonly joinsUserNamespaces: boolean
  /**
   * The command line for `create`: joins the given cgroups, mounts the table's entries for itself alone, and becomes
   * the runtime.
   */
  creating(joinFiles: readonly string[], mounts: Mounts): readonly [string, ...string[]]
  start(sandbox: SandboxId, signal: AbortSignal): Promise<void>
  /** `created`, `running` or `stopped`, or undefined where the runtime has no such container. */
  status(sandbox: SandboxId, signal: AbortSignal): Promise<string | undefined>
  /**
   * Drops the runtime's record of a container whose processes are gone: a directory of its name. crun's own `delete`
   * does no more, and costs a process.
   */
  forget(sandbox: SandboxId, cgroupPath: string, signal: AbortSignal): Promise<void>
}

export interface Mounts {
  /** The path of a table in the form of fstab(5). */
  readonly table: string
  /** The directory that the paths in the table's options are relative to. */
  readonly base: string
  /** A command in the place of mount(8). Its arguments are table, base, and the descriptor on which the word comes. */
  readonly mount?: readonly [string, ...string[]]
}

export interface RuntimeOptions {
  readonly name: "crun" | "runc"
  /** The path of the runtime's binary. */
  readonly path: string
  /** The directory of the runtime's own state. */
  readonly root: string
}

/** The part of the runtime's answer that matters here. */
const ContainerState = z.object({ status: z.string() })

/** The path at which the runtime's binary is mounted read-only in its own mount namespace, to be called there. */
export const RUNTIME_PLACE = "/run/berth/runtime"

/**
 * mount(8) from util-linux 2.39 on prefers a kernel interface that takes 256 bytes an option, which a stack of
 * a few layers exceeds.
 */
const MOUNT_ENV = { LIBMOUNT_FORCE_MOUNT2: "always" } as const

/**
 * A runtime protects its binary from the processes that it starts by copying itself at each start, unless it lies where
 * nobody can write and this variable says that it was put there for that.
 */
const OUT_OF_REACH_ENV = { _LIBCONTAINER_CLONED_BINARY: "1" } as const

/** The environment of the command that creates a container. */
export const CREATING_ENV = { ...PLAIN_ENV, ...MOUNT_ENV, ...OUT_OF_REACH_ENV } as const

/**
 * Limits for runc, which makes a sandbox's user namespace as the host's root: the kernel then counts everything of the
 * sandbox's users for root as well. A namespace may add at most its maker's limits, so these are below root's own, and
 * root has some left. A timer counts as a signal.
 */
const RUNC_LIMITS = [
  { flag: "--msgqueue", name: "Max msgqueue size", most: 409_600 },
  { flag: "--sigpending", name: "Max pending signals", most: 4_096 },
] as const

/** The command that lowers these limits. A server that has less itself could not raise them. */
const lowering = (): string[] => {
  const limits = readFileSync("/proc/self/limits", "utf8")
  const flags = RUNC_LIMITS.map(({ flag, name, most }) => {
    const own = Number(new RegExp(`^${name}\\s+\\S+\\s+(\\d+)`, "m").exec(limits)?.[1] ?? most)
    const limit = Math.min(most, own)
    return `${flag}=${limit}:${limit}`
  })
  return ["prlimit", ...flags]
}

/** The oldest versions that have the flags used here. */
const OLDEST = { crun: [1, 0], runc: [1, 0] } as const

/**
 * The deadline of a runtime's call. A container's start and removal take tens of milliseconds; a host that swaps takes
 * seconds.
 */
const RUNTIME_DEADLINE_MS = 15_000

/** The descriptor on which the runtime is given the word to create the container. */
export const WORD_FD = 4

/**
 * A shell script that waits for the word, mounts what a table lists, joins the cgroups of the first N files given,
 * raises its score for a host that is out of memory, and becomes the program. Where the server has the right to lower a
 * score, nothing inside can lower this one. A shell does this in milliseconds; conmon calls it in the runtime's place.
 * It runs in a mount namespace of its own, so that its mounts are neither seen nor left behind on the host. A server
 * that ends gives no word: then nothing is made. A command in the place of mount(8) waits for the word itself, and is
 * loaded by then. The program's standard input is an empty pipe: crun makes the sandbox's root the owner of its
 * standard input, and conmon gives it the host's own /dev/null.
 */
const joinAndExec = ({ mount }: Mounts): string => `
count=$1; table=$2; base=$3; score=$4; shift 4
${mount ? `${mount.map(quoted).join(" ")} "$table" "$base" ${WORD_FD}` : MOUNT_ALL} || exit 1
exec ${WORD_FD}<&-
while [ "$count" -gt 0 ]; do echo 0 > "$1" || exit 1; shift; count=$((count - 1)); done
echo "$score" 2>/dev/null > /proc/self/oom_score_adj
exec "$@" <<END
END
`

const MOUNT_ALL = `(read -r _ <&${WORD_FD} && cd "$base" && exec mount --all --fstab "$table")`

export const openRuntime = async (
  options: RuntimeOptions,
  signal: AbortSignal,
): Promise<Runtime> => {
  const version = await readVersion(options, signal)
  const { name, path, root } = options
  const flags = ["--root", root, ...(name === "crun" ? ["--cgroup-manager=disabled"] : [])]

  const lowered = name === "runc" ? lowering() : []
  const creating: Runtime["creating"] = (joinFiles, mounts) => {
    // runc joins the sandbox's cgroups by itself.
    const join = name === "crun" ? joinFiles : []
    const score = sandboxOomScore()
    const { table, base } = mounts
    const script = ["join", `${join.length}`, table, base, `${score}`]
    const shell = [
      "/bin/sh",
      "-c",
      joinAndExec(mounts),
      ...script,
      ...join,
      ...lowered,
      RUNTIME_PLACE,
      ...flags,
    ]
    return ["/usr/bin/unshare", "--mount", "--propagation=slave", ...shell]
  }
  // Runs the runtime directly: only `create` looks at the host's cgroups, and needs the mounts.
  const call = (args: readonly string[], signal: AbortSignal) =>
    run([path, ...flags, ...args], { signal, deadlineMs: RUNTIME_DEADLINE_MS })

  const status: Runtime["status"] = async (sandbox, signal) => {
    const { status, stdout } = await call(["state", sandbox], signal)
    return status === 0 ? ContainerState.parse(JSON.parse(stdout)).status : undefined
  }

  return {
    name,
    version,
    // runc sets limits from outside, for which it lacks the right in a namespace that is not root's.
    joinsUserNamespaces: name === "crun",
    status,
    creating,
    async start(sandbox, signal) {
      if (name === "crun" && writeStartByte(join(root, sandbox, "exec.fifo"))) return
      expectSuccess(name, "start", sandbox, await call(["start", sandbox], signal))
    },
    async forget(sandbox, cgroupPath, signal) {
      if (name === "runc") {
        await call(["delete", "--force", sandbox], signal)
        await removeRuncCgroups(cgroupPath)
      }
      await rm(join(root, sandbox), { recursive: true, force: true })
    },
  }
}

/**
 * Does what crun's own `start` does, without a process for it: writes the byte that the sandbox's first process waits
 * for. If no process waits any more, it has had its byte from a server that was killed before it could remove the file;
 * by that file crun tells a created container from a running one. Returns false where crun itself must be asked.
 */
const writeStartByte = (fifo: string): boolean => {
  try {
    write(fifo)
    unlinkSync(fifo)
    return true
  } catch {
    return false
  }
}

const write = (fifo: string): void => {
  let file: number
  try {
    file = openSync(fifo, constants.O_WRONLY | constants.O_NONBLOCK)
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === "ENXIO") return
    throw thrown
  }
  try {
    writeSync(file, "1")
  } finally {
    closeSync(file)
  }
}

const expectSuccess = (runtime: string, what: string, sandbox: string, outcome: Outcome) => {
  if (outcome.status === 0) return
  throw new BerthError("backend.engine_failed", `${runtime} could not ${what} the sandbox`, {
    details: { sandbox, runtime, status: outcome.status, engineSaid: outcome.stderr.trim() },
  })
}

const readVersion = async (
  { name, path }: Pick<RuntimeOptions, "name" | "path">,
  signal: AbortSignal,
): Promise<string> => {
  const { status, stdout, stderr } = await run([path, "--version"], { signal })
  const version = /version (\d+\.\d+[^\s]*)/.exec(stdout)?.[1]
  if (status !== 0 || version === undefined) {
    throw new BerthError("backend.unavailable", `${name} does not tell its version`, {
      details: { path, status, engineSaid: (stderr || stdout).trim() },
    })
  }
  const [major = 0, minor = 0] = version.split(".").map(Number)
  const [oldestMajor, oldestMinor] = OLDEST[name]
  if (major < oldestMajor || (major === oldestMajor && minor < oldestMinor)) {
    throw new BerthError("backend.unavailable", `${name} ${version} is too old`, {
      details: { path, version, oldest: OLDEST[name].join(".") },
    })
  }
  return version
}
