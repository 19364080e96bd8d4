import { BerthError } from "@berth/protocol/errors"
import { runCommand } from "../../processes/run.ts"
import type { AgentParts } from "../parts.ts"

/** Limits a file operation, also on a path that leads to a device or to a file system that does not answer. */
const FILE_LIMIT_MS = 10_000

/** A range of lines in a text. */
export interface Lines {
  /** The first line, counted from 1. */
  readonly line?: number | undefined
  readonly limit?: number | undefined
}

/** Reads and writes files at the agent's request, as the user: root could reach files that the agent may not. */
export class UserFiles {
  readonly #parts: AgentParts

  constructor(parts: AgentParts) {
    this.#parts = parts
  }

  async read(path: string, lines: Lines = {}): Promise<string> {
    const { stdout, isStdoutCut } = await this.#run("read", path, ["/bin/sh", "-c", READ, "sh"], {
      args: lines.line === undefined && lines.limit === undefined ? [] : [rangeOf(lines)],
    })
    if (isStdoutCut)
      throw new BerthError("agent.failed", `${path} is too large: read it in parts, by lines`)
    return stdout
  }

  /** Writes a file, with the directories above it. */
  async write(path: string, content: string): Promise<void> {
    await this.#run("write", path, ["/bin/sh", "-c", WRITE, "sh"], { input: content })
  }

  /** Replaces a file atomically. */
  async replace(path: string, content: string): Promise<void> {
    await this.#run("write", path, ["/bin/sh", "-c", REPLACE, "sh"], { input: content })
  }

  async #run(
    verb: string,
    path: string,
    command: readonly [string, ...string[]],
    { input = "", args = [] }: { input?: string; args?: readonly string[] },
  ) {
    if (!path.startsWith("/") || path.includes("\0"))
      throw new BerthError("input.invalid", `${path} is not an absolute path`)
    const { clock, pipes, user, environment } = this.#parts
    const end = await runCommand(
      {
        title: `${verb} ${path}`,
        command: [...command, path, ...args],
        cwd: "/",
        env: environment,
        user,
        deadlineMs: FILE_LIMIT_MS,
        capture: { input },
      },
      { clock, pipes, signal: new AbortController().signal },
    )
    if (end.status === 0) return end
    throw new BerthError("agent.failed", `cannot ${verb} ${path}: ${end.lastOutput.trim()}`)
  }
}

const READ = 'if [ $# = 1 ]; then exec cat -- "$1"; else exec sed -n -e "$2" -- "$1"; fi'
const MAKE_ROOM = 'mkdir -p -- "$(dirname -- "$1")" && '
const WRITE = `${MAKE_ROOM}exec cat > "$1"`
const REPLACE = `${MAKE_ROOM}cat > "$1.new" && exec mv -f -- "$1.new" "$1"`

const rangeOf = ({ line = 1, limit }: Lines): string => {
  const first = Math.max(1, Math.floor(line))
  if (limit === undefined) return `${first},$p`
  return `${first},${first + Math.max(1, Math.floor(limit)) - 1}p`
}
