import { PassThrough, pipeline, type Readable } from "node:stream"
import { BerthError } from "@berth/protocol/errors"
import type { FeatureParts } from "../features/parts.ts"
import { type Clock, pause } from "../processes/clock.ts"
import { type LaunchedApart, launchApart } from "../processes/launch.ts"
import { ByteRing } from "../processes/output/ring.ts"
import { COMMAND_STOP_GRACE_MS, STRAGGLER_GRACE_MS } from "../processes/run.ts"
import { endTree } from "../processes/tree/end.ts"
import { gitFailure } from "../repos/failure.ts"
import { environmentOf, SETTINGS } from "../repos/git.ts"

/** Limit of the kept end of git's error output. */
const LAST_OUTPUT_BYTES = 16 * 1024
/** Time limit for the rest of the error output after git's exit, as a hidden process may hold it open. */
const COMPLAINTS_MS = 2 * STRAGGLER_GRACE_MS

export type GitParts = Pick<FeatureParts, "clock" | "pipes" | "user" | "environment"> & {
  readonly signal: AbortSignal
}

export interface GitCall {
  /** The arguments after `git`. */
  readonly args: readonly [string, ...string[]]
  /** Git's directory. Git itself enters it, with the user's rights. */
  readonly directory: string
  readonly deadlineMs: number
  readonly input?: Buffer
  readonly environment?: Readonly<Record<string, string>>
  /** Whether the repo's hooks run. */
  readonly withHooks?: boolean
  /**
   * A shell script that begins in the directory and calls git as `"$@"`. It can pass on from its input what cannot be
   * an argument.
   */
  readonly script?: string
}

/** The result of a call whose status may be the answer. */
export interface Ended {
  readonly status: number | null
  readonly output: Buffer
}

/**
 * Runs git once, and passes its output to `read`, at the reader's pace. A reader that stops early ends git. Rejects if
 * git fails, is cancelled or misses its deadline; none of its processes runs then.
 */
export const git = async <Result>(
  call: GitCall,
  parts: GitParts,
  read: (stdout: Readable) => Promise<Result>,
): Promise<Result> => {
  const { result, failure } = await run(call, parts, read)
  if (failure !== undefined) throw failure
  return result
}

/** Like `git`, for a call with a short answer, which may be its status. */
export const askGit = async (call: GitCall, parts: GitParts): Promise<Ended> => {
  const { result, status } = await run(call, parts, (stdout) => readAll(stdout, SHORT_BYTES))
  return { status, output: result }
}

export const answerOf = (call: GitCall, parts: GitParts): Promise<string> =>
  git(call, parts, async (stdout) => (await readAll(stdout, SHORT_BYTES)).toString("utf8").trim())

const SHORT_BYTES = 64 * 1024

const readAll = async (stdout: Readable, maxBytes: number): Promise<Buffer> => {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of stdout as AsyncIterable<Buffer>) {
    chunks.push(chunk.subarray(0, maxBytes - bytes))
    bytes += chunks.at(-1)?.length ?? 0
  }
  return Buffer.concat(chunks)
}

const run = async <Result>(
  call: GitCall,
  parts: GitParts,
  read: (stdout: Readable) => Promise<Result>,
) => {
  const { clock, pipes, user, signal } = parts
  const title = `git ${call.args[0]}`
  const launched = await launchApart(
    { command: commandOf(call), env: environmentFor(call, parts), cwd: "/", user },
    { pipes, stdin: call.input !== undefined, signal },
  )
  const { tree, exited } = launched
  // Node's readers of pipes begin only when they are piped.
  const stdout = new PassThrough()
  pipeline(launched.stdout, stdout, () => {})
  // A process that a hook left running would hold the output open.
  void exited.then(() => endTree(tree, { clock, graceMs: STRAGGLER_GRACE_MS }))
  // The error reaches the reader.
  stdout.on("error", () => {})
  const complaints = hearComplaints(launched, call.input)
  const isCut = Promise.withResolvers<never>()
  isCut.promise.catch(() => {})
  const cut = (reason: unknown) => {
    isCut.reject(reason)
    stdout.destroy(reason as Error)
  }
  const onAbort = () => cut(signal.reason)
  const takeBack = clock.after(call.deadlineMs, () => cut(tooLate(title, call.deadlineMs)))
  signal.addEventListener("abort", onAbort, { once: true })
  if (signal.aborted) onAbort()
  try {
    const result = await read(stdout)
    if (!stdout.readableEnded) return { result, status: null, failure: undefined }
    const { status, signal: by } = await Promise.race([exited, isCut.promise])
    const lastOutput = await complaints(clock)
    const failure = status === 0 ? undefined : failureOf(title, { status, signal: by, lastOutput })
    return { result, status, failure }
  } finally {
    takeBack()
    signal.removeEventListener("abort", onAbort)
    // A git that was cut short gets time to tidy up.
    const graceMs = launched.exit ? STRAGGLER_GRACE_MS : COMMAND_STOP_GRACE_MS
    await endTree(tree, { clock, graceMs })
    for (const stream of [stdout, launched.stdout, launched.stderr]) stream.destroy()
    launched.stdin?.stream.destroy()
  }
}

/** Writes the input, and keeps the end of the error output. Returns a function that resolves with it. */
const hearComplaints = ({ stdin, stderr }: LaunchedApart, input: Buffer | undefined) => {
  const ring = new ByteRing(LAST_OUTPUT_BYTES)
  const ended = new Promise<void>((resolve) => stderr.once("close", () => resolve()))
  stderr.on("data", (chunk: Buffer) => ring.write(chunk))
  stderr.on("error", () => {})
  // A git that ends without reading its whole input says why in its error output.
  stdin?.stream.on("error", () => {})
  stdin?.stream.end(input)
  return async (clock: Clock) => {
    const enough = new AbortController()
    await Promise.race([ended, pause(clock, COMPLAINTS_MS, enough.signal)])
    enough.abort()
    return ring.text()
  }
}

/**
 * The command line. Settings keep the repo's configuration, colours and hooks from changing the output that is parsed.
 */
const commandOf = ({ args, directory, script, withHooks }: GitCall): [string, ...string[]] => {
  const settings = [...SETTINGS, ...OUTPUT, ...(withHooks ? [] : ["core.hooksPath=/dev/null"])]
  const config = settings.flatMap((setting) => ["-c", setting])
  const command = ["git", ...config, ...args]
  if (script === undefined) return ["git", "-C", directory, ...config, ...args]
  return ["/bin/sh", "-c", `cd -- "$1" || exit 128; shift\n${script}`, "sh", directory, ...command]
}

const OUTPUT = ["color.ui=false", "core.quotePath=true", "log.showSignature=false"]

const environmentFor = (call: GitCall, { environment }: GitParts) => ({
  ...environmentOf(environment),
  // A look at a repo must take no lock that the agent's own git would stumble over.
  GIT_OPTIONAL_LOCKS: "0",
  GIT_LITERAL_PATHSPECS: "1",
  ...call.environment,
})

const failureOf = (title: string, end: Parameters<typeof gitFailure>[1]): BerthError =>
  /not a git repository|cannot change to|can't cd to|must be run in a work tree/.test(
    end.lastOutput,
  )
    ? new BerthError("git.no_repo", "there is no git repo in that directory", {
        details: { lastOutput: end.lastOutput },
      })
    : gitFailure(title, end)

const tooLate = (title: string, deadlineMs: number): BerthError =>
  new BerthError("deadline.exceeded", `${title} did not end within ${deadlineMs} ms`, {
    details: { deadlineMs },
  })
