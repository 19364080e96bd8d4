import { spawn } from "node:child_process"
import { once } from "node:events"
import { buffer, text } from "node:stream/consumers"
import { BerthError } from "@berth/protocol/errors"

/**
 * The limits of git on data from a sandbox: a pack of a few kilobytes can stand for gigabytes. In the units of
 * `ulimit`: kilobytes of address space, and seconds of processor time.
 */
const MAX_MEMORY_KB = 4 * 1024 * 1024
const MAX_CPU_S = 900

const DEADLINE_MS = 30 * 60_000

export interface LocalGit {
  readonly directory: string
  readonly args: readonly string[]
  /** Variables beside the person's own. */
  readonly env?: Readonly<Record<string, string>>
  readonly input?: AsyncIterable<Uint8Array> | undefined
  readonly signal: AbortSignal
}

/** Runs git in a repo of the person's, as the person; returns its output. */
export const localGit = async (call: LocalGit): Promise<string> =>
  (await localGitBytes(call)).toString()

export const localGitBytes = async ({
  directory,
  args,
  env = {},
  input,
  signal,
}: LocalGit): Promise<Buffer> => {
  const limits = `ulimit -v ${MAX_MEMORY_KB}; ulimit -t ${MAX_CPU_S}; exec git "$@"`
  const child = spawn("/bin/sh", ["-c", limits, "git", "-C", directory, ...args], {
    stdio: ["pipe", "pipe", "pipe"],
    env: { ...process.env, ...env },
    signal: AbortSignal.any([signal, AbortSignal.timeout(DEADLINE_MS)]),
  })
  const failed = once(child, "error").then(([cause]) => {
    throw new BerthError("input.usage", "git could not be run on this machine", { cause })
  })
  // Git ends without reading all input where it refuses; its error output says why.
  child.stdin.on("error", () => {})
  const fed = feed(child.stdin, input)
  const ended = Promise.all([buffer(child.stdout), text(child.stderr), once(child, "close"), fed])
  const [stdout, said, [status]] = await Promise.race([ended, failed])
  if (status === 0) return stdout
  throw new BerthError("repo.local_refused", said.trim() || `git ended with status ${status}`, {
    details: { directory, command: args[0] },
  })
}

const feed = async (
  stdin: NodeJS.WritableStream,
  input: AsyncIterable<Uint8Array> = (async function* () {})(),
): Promise<void> => {
  for await (const bytes of input)
    if (!stdin.write(bytes)) await Promise.race([once(stdin, "drain"), once(stdin, "close")])
  stdin.end()
}

/** The top directory of the repo that a directory lies in. */
export const repoAt = async (directory: string, signal: AbortSignal): Promise<string> =>
  (await localGit({ directory, args: ["rev-parse", "--show-toplevel"], signal })).trimEnd()
