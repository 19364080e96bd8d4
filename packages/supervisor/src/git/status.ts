import type { Readable } from "node:stream"
import type { GitFile, GitStatus } from "@berth/protocol/git"
import { MAX_GIT_FILES } from "@berth/protocol/git-limits"
import { toWire } from "../files/work/bytes.ts"
import { LOOK_DEADLINE_MS } from "../repos/git.ts"
import { type GitParts, git } from "./call.ts"
import { recordsOf } from "./records.ts"

const ARGS = [
  ...(["status", "--porcelain=v2", "-z", "--branch", "--untracked-files=all"] as const),
  ...["--renames", "--ignore-submodules=none"],
] as const

export const statusOf = (directory: string, parts: GitParts): Promise<GitStatus> =>
  git({ args: ARGS, directory, deadlineMs: LOOK_DEADLINE_MS }, parts, parseStatus)

/** The number of fields before the path, by the kind of the record. */
const FIELDS: Readonly<Record<string, number>> = { "1": 8, "2": 9, u: 10, "?": 1 }

export const parseStatus = async (stdout: Readable): Promise<GitStatus> => {
  const heads = new Map<string, string>()
  const files: GitFile[] = []
  let isCut = false
  const records = recordsOf(stdout)
  for await (const record of records) {
    const kind = String.fromCharCode(record[0] ?? 0)
    if (kind === "#") {
      const [, name = "", value = ""] = /^# (\S+) (.*)$/s.exec(record.toString("utf8")) ?? []
      heads.set(name, value)
      continue
    }
    const file = fileOf(kind, record)
    if (file === undefined) continue
    if (files.length === MAX_GIT_FILES) {
      isCut = true
      break
    }
    const from = kind === "2" ? (await records.next()).value : undefined
    files.push(from === undefined ? file : { ...file, from: toWire(from as Buffer) })
  }
  return { ...branchOf(heads), files, isCut }
}

const fileOf = (kind: string, record: Buffer): GitFile | undefined => {
  const fields = FIELDS[kind]
  if (fields === undefined) return undefined
  let start = 0
  for (let field = 0; field < fields; field++) start = record.indexOf(" ", start) + 1
  const path = toWire(record.subarray(start))
  const [index, worktree] = kind === "?" ? "??" : record.toString("latin1", 2, 4)
  return { path, index: index as GitFile["index"], worktree: worktree as GitFile["worktree"] }
}

const branchOf = (heads: ReadonlyMap<string, string>) => {
  const commit = heads.get("branch.oid")
  const branch = heads.get("branch.head")
  const upstream = heads.get("branch.upstream")
  const [, ahead = 0, behind = 0] = /^\+(\d+) -(\d+)$/.exec(heads.get("branch.ab") ?? "") ?? []
  return {
    commit: commit === undefined || commit === "(initial)" ? null : commit,
    branch: branch === undefined || branch === "(detached)" ? null : branch,
    upstream:
      upstream === undefined
        ? null
        : { name: upstream, ahead: Number(ahead), behind: Number(behind) },
  }
}
