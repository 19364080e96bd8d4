import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process"
import { once } from "node:events"
import { text } from "node:stream/consumers"
import { onTestFinished } from "vitest"
import type { OverlayMount } from "../tops/mount.ts"
import { AGENT, ID_BASE } from "./ids.ts"

/**
 * Mounts as a backend does: by root, in a namespace of its own. The command then runs with an id of the sandbox's
 * range.
 */
const MOUNT = 'mount -t overlay overlay -o "$1" "$2"; cd "$2"; shift 2; exec "$@"'

/** A directory that every Linux has. Only programs in that namespace see the mount. */
const TARGET = "/mnt"

const start = (
  { cwd, options, env }: OverlayMount,
  script: string,
  owner: number,
): ChildProcessWithoutNullStreams => {
  const id = String(owner)
  return spawn(
    "unshare",
    [
      ...["--mount", "--propagation=slave", "sh", "-ec", MOUNT, "sh", options.join(","), TARGET],
      ...["setpriv", "--reuid", id, "--regid", id, "--clear-groups", "sh", "-ec", script],
    ],
    { cwd, env: { ...process.env, ...env, LC_ALL: "C", HOME: TARGET, OLD_HOME: process.env.HOME } },
  )
}

/** The host's root, who can read and see everything. */
export const HOST_ROOT = 0

/** Runs a script in a mounted top, as the agent unless told otherwise, and returns its output. */
export const inMount = async (
  mount: OverlayMount,
  script: string,
  owner = ID_BASE + AGENT.uid,
): Promise<string> => {
  const child = start(mount, script, owner)
  child.stdin.end()
  const output = Promise.all([text(child.stdout), text(child.stderr)])
  const [status] = (await once(child, "close")) as [number | null]
  const [stdout, stderr] = await output
  if (status !== 0) throw new Error(`the script ended with ${status}: ${stderr}${stdout}`)
  return stdout
}

export interface RunningMount {
  readonly pid: number
  /** Ends the script and with it the mount. */
  end(): Promise<void>
}

/** Keeps a top mounted until it is told to end, after a script. */
export const keepMounted = async (mount: OverlayMount, script = ":"): Promise<RunningMount> => {
  const child = start(mount, `${script}\necho ready\ncat`, ID_BASE + AGENT.uid)
  const closed = once(child, "close")
  onTestFinished(() => void child.kill("SIGKILL"))
  for await (const chunk of child.stdout) if (String(chunk).includes("ready")) break
  return {
    pid: child.pid ?? Number.NaN,
    end: async () => {
      child.stdin.end()
      child.kill("SIGKILL")
      await closed
    },
  }
}
