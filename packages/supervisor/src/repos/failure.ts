import { BerthError, type ErrorCode } from "@berth/protocol/errors"
import type { CommandEnd } from "../processes/run.ts"
import { isProgress } from "./progress.ts"

/** Limit of the lines of git's output in the message. The details have more. */
const MESSAGE_LINES = 3

/**
 * Tells the kind of failure from git's output, as git ends with status 128 whatever went wrong on the way to a server.
 * Its messages are English (see `git.ts`), and lines from the server ("remote: …") are ignored. The first match counts.
 */
const SIGNS: readonly (readonly [ErrorCode, RegExp])[] = [
  ["repo.disk_full", /No space left on device|Disk quota exceeded/],
  [
    "repo.auth_failed",
    /Authentication failed|could not read (Username|Password)|returned error: 40[13]|Permission denied \(|Host key verification failed/,
  ],
  [
    "repo.not_found",
    /repository '.*' (not found|does not exist)|returned error: 404|does not appear to be a git repository|repository not exported/,
  ],
  ["repo.ref_unknown", /not our ref|find remote ref|unadvertised object/],
  [
    "repo.unreachable",
    /Could not resolve host|unable to look up|Failed to connect|unable to connect|Connection (refused|timed out|reset)|timed out|too slow|early EOF|hung up|unexpected disconnect|RPC failed|returned error: (429|5\d\d)|unreachable|No route to host|SSL|gnutls|Empty reply|Could not read from remote repository/i,
  ],
]

export const gitFailure = (
  title: string,
  end: Pick<CommandEnd, "status" | "signal" | "lastOutput">,
): BerthError => {
  const words = lastWords(end.lastOutput)
  const how = end.signal === null ? `with status ${end.status}` : `by ${end.signal}`
  return new BerthError(codeOf(end.lastOutput), `${title} ended ${how}: ${words}`, {
    details: { command: title, status: end.status, signal: end.signal, lastOutput: end.lastOutput },
  })
}

/** Git's first error on one line, with the advice that follows; without an error, the end of its output. */
export const lastWords = (output: string): string => {
  const lines = linesOf(output)
  const complaint = lines.findIndex((line) => /^(fatal|error): /.test(line))
  const from = complaint < 0 ? -MESSAGE_LINES : complaint
  return lines.slice(from).slice(0, MESSAGE_LINES).join(" | ") || "it said nothing"
}

const codeOf = (output: string): ErrorCode => {
  const own = linesOf(output)
    .filter((line) => !line.startsWith("remote: "))
    .join("\n")
  return SIGNS.find(([, sign]) => sign.test(own))?.[0] ?? "repo.git_failed"
}

const linesOf = (output: string): string[] =>
  output
    .split(/[\r\n]/)
    .map((line) => line.trim())
    .filter((line) => line !== "" && !isProgress(line))
